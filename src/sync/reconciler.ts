import type { AppError } from "../base/errors.ts";
import type { Family } from "../base/family.ts";
import { resultOf } from "../base/pieces.ts";
import type { StatePart } from "../features/seam/state-part.ts";
import type { Nft } from "../kernel/nft.ts";
import { isRefusedByKernel, NftRefusedError, TransactionFailedError } from "../kernel/nft-errors.ts";
import { tableNames } from "../kernel/nft-listings.ts";
import { remainingTimes, type TableReader } from "../kernel/table-reader.ts";
import { type ServiceName, type ServicePortKey, serviceOf } from "../model/ids.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import type { Ruleset } from "../nft/ast/ruleset.ts";
import { isEmptyDelta, type TableDelta, unexplained } from "../nft/delta.ts";
import { toTransaction } from "../nft/transaction.ts";
import { withoutObjectDeletions } from "../ruleset/apply-plan.ts";
import { adoptEjected } from "../ruleset/ejection.ts";
import type { NodeContext } from "../ruleset/node-context.ts";
import { Renderer } from "../ruleset/renderer.ts";
import type { RulesetState } from "../ruleset/ruleset-state.ts";
import { setSpecs } from "../ruleset/set-specs.ts";
import { applyDeltas } from "./apply-deltas.ts";
import { fullSync } from "./full-sync.ts";
import { areTablesAccepted, failingServicePorts, refusedFamily, refusedServicePorts } from "./quarantine.ts";
import type { Quarantine } from "./quarantine-changes.ts";
import { RefusedRules } from "./refused-rules.ts";
import { creations, type RepairOptions, Repairs } from "./repairs.ts";
import { StaleChains } from "./stale-chains.ts";
import type { FullSyncReason, SyncOutcome } from "./sync-report.ts";
import { inTurns } from "./turns.ts";

/** Parts of a {@link Reconciler}. */
export interface ReconcilerParts {
  readonly cache: ObjectCache;
  readonly nft: Nft;
  readonly tables: TableReader;
  /** Maximum number of elements in one transaction of several. */
  readonly chunkSize?: number;
  /** Maximum number of elements that one sync changes if more wait; {@link PORTION} if absent. */
  readonly portion?: number;
  /** What features add to the desired state; nothing if absent. */
  readonly stateParts?: readonly StatePart[];
  /** Whether passive health checks run: then endpoints that an earlier process ejected stay ejected. */
  readonly checksHealth?: boolean;
}

/**
 * Maximum number of elements that a sync changes if more wait. The next sync begins with small Services that
 * changed meanwhile, so that nobody waits for another tenant's hundred thousand elements. A sync of 4,000
 * elements takes 0.3 s (2 cores, 6.18).
 */
const PORTION = 4000;

/** The input of a sync, besides the objects in the cache. */
export interface SyncInput {
  readonly nodeContext: NodeContext;
  /**
   * Services that changed since the last call of {@link Reconciler.sync}. A failed call keeps its Services
   * for the next one.
   */
  readonly services: Iterable<ServiceName>;
  /**
   * Renders all waiting Services, without portions, before {@link Reconciler.sync} returns its promise:
   * nothing else runs meanwhile, however long it takes.
   */
  readonly atOnce?: boolean;
}

/**
 * Brings the kernel to the state that the cached objects describe. Usually it sends the changes since the
 * last success. If the state of the kernel is unknown, it reads our tables and repairs them. It commits a
 * state only after the kernel has accepted it.
 */
export class Reconciler {
  readonly #parts: ReconcilerParts;
  readonly #refused = new RefusedRules();
  readonly #staleChains = new StaleChains();
  readonly #repairs = new Repairs();
  #nodeContext: NodeContext = [];
  #renderer: Renderer;
  #fullSync: FullSyncReason | undefined = "start";
  #isFullSyncUnderWay = false;
  /**
   * What is known of our tables in the kernel. "unknown": no sync has succeeded with this state; an earlier
   * process or context may have left tables. "committed": they are as last committed. "in-doubt": a change
   * failed since, but may have taken effect, at least in part.
   */
  #kernelState: "unknown" | "in-doubt" | "committed" = "unknown";
  /** Services that the next successful sync reports as rendered, unless they still wait. */
  #toReport = new Set<ServiceName>();

  constructor(parts: ReconcilerParts) {
    this.#parts = parts;
    this.#renderer = new Renderer(parts.cache, this.#nodeContext);
  }

  /** The desired state; empty before the first sync. */
  get state(): RulesetState {
    return this.#renderer.state;
  }

  /**
   * Service ports that have no rules because the kernel refuses them or they exceed a limit, each with the
   * reason.
   */
  get quarantined(): Quarantine {
    return this.#refused.with(this.#renderer.excess);
  }

  /**
   * Families without tables because the kernel refuses these, with its reason; the other family is
   * programmed.
   */
  get excludedFamilies(): ReadonlyMap<Family, string> {
    return this.#refused.families;
  }

  /**
   * Everything that is to be sent or is being sent: pending changes, repairs, and deletions of stale chains.
   */
  get unsent(): readonly TableDelta[] {
    const repairs = this.#repairs.changes(this.state.ruleset);
    return [...this.state.pending(), ...repairs, ...this.#staleChains.deletions];
  }

  /** Whether the next sync compares everything with the kernel. */
  get isFullSyncDue(): boolean {
    return this.#fullSync !== undefined;
  }

  /** Whether a repair or a full sync is due or under way. */
  get isRepairDue(): boolean {
    return this.isFullSyncDue || this.#isFullSyncUnderWay || this.#repairs.isAny;
  }

  /** Makes the next sync compare everything with the kernel. */
  requestFullSync(reason: FullSyncReason): void {
    this.#fullSync ??= reason;
  }

  /**
   * Makes the next sync repair changes by other programs without reading the kernel.
   * @param found current differences from the desired state, without those that our own changes explain
   */
  requestRepair(found: readonly TableDelta[], options: RepairOptions = {}): void {
    if (found.some(({ mode }) => mode === "recreate")) this.requestFullSync("drift");
    else this.#repairs.add(unexplained(found, this.state.pending()), options);
  }

  /**
   * Makes the next sync retry everything that the kernel refused.
   * @returns whether there is anything to try
   */
  retryRefused(): boolean {
    return this.#refused.retry();
  }

  /**
   * Whether the rules were last rendered with this node context, except for families that the kernel refuses.
   */
  isCurrent(nodeContext: NodeContext): boolean {
    return JSON.stringify(this.#refused.programmed(nodeContext)) === JSON.stringify(this.#nodeContext);
  }

  /**
   * One sync.
   * @throws AppError if the kernel could not be brought to the desired state; the next sync is a full one
   */
  async sync(input: SyncInput): Promise<SyncOutcome> {
    const reasonAtStart = this.#fullSync;
    try {
      // No await before this: with `atOnce`, everything must be rendered when `sync` returns its promise.
      await this.#render(input);
      await this.#tryProbation();
      const result = this.#fullSync === undefined ? await this.#partial() : await this.#full(this.#fullSync);
      const { waiting } = this.#renderer;
      const rendered = new Set([...this.#toReport].filter((name) => !waiting.has(name)));
      this.#toReport = new Set(waiting);
      this.#refused.succeeded();
      return { ...result, rendered, waiting };
    } catch (error) {
      this.requestFullSync(reasonAtStart ?? "failure");
      throw error;
    } finally {
      this.#isFullSyncUnderWay = false;
      this.#repairs.end();
    }
  }

  /**
   * Deletes stale chains.
   * @throws as {@link Nft.apply}; the next call retries deletions that could not be sent, or for which the
   * kernel was busy
   */
  async deleteStaleChains(): Promise<void> {
    const deletions = this.#staleChains.unusedIn(this.state.ruleset);
    try {
      if (deletions.length > 0) await this.#parts.nft.apply(toTransaction(deletions));
    } catch (error) {
      if (error instanceof NftRefusedError && !error.isBusy) this.#staleChains.clear();
      throw error;
    }
    // Not earlier, because they explain differences that a comparison finds.
    this.#staleChains.clear();
  }

  async #render({ nodeContext, services, atOnce = false }: SyncInput): Promise<void> {
    const { cache } = this.#parts;
    const dirty = new Set(services);
    const retried = this.#refused.takeRetries(dirty, (name) => cache.service(name) !== undefined);
    for (const key of retried) dirty.add(serviceOf(key));
    for (const name of dirty) this.#toReport.add(name);
    try {
      for (const part of this.#parts.stateParts ?? []) part.update(dirty);
      const pieces = this.isCurrent(nodeContext)
        ? this.#renderer.updating(dirty, this.#refused.servicePorts, this.#maxWork(atOnce))
        : this.#renderAll(this.#refused.programmed(nodeContext));
      if (atOnce) resultOf(pieces);
      else await inTurns(pieces);
    } catch (error) {
      // Rules of any Service may be missing now. Without a context, `isCurrent` is false, and `#renderAll`
      // finds other sets, so the next sync makes a new state, which adopts the kernel's ids again.
      this.#nodeContext = [];
      throw error;
    }
    for (const name of this.#renderer.rendered) this.#toReport.add(name);
    this.#putStateParts();
  }

  #putStateParts(): void {
    for (const part of this.#parts.stateParts ?? []) part.putInto(this.state);
  }

  /**
   * How much this sync may change: everything with `atOnce`, in a full sync, and for service ports on
   * probation, which are all tried in this sync.
   */
  #maxWork(atOnce: boolean): number {
    const isWhole = atOnce || this.isFullSyncDue || this.#refused.probation.size > 0;
    return isWhole ? Number.POSITIVE_INFINITY : (this.#parts.portion ?? PORTION);
  }

  /**
   * Renders all Services. Set declarations cannot change in place, so it makes a new state if they differ.
   */
  *#renderAll(nodeContext: NodeContext): Generator<undefined> {
    for (const name of this.#parts.cache.serviceNames()) this.#toReport.add(name);
    const sameSets =
      JSON.stringify(nodeContext.map(setSpecs)) === JSON.stringify(this.#nodeContext.map(setSpecs));
    this.#nodeContext = nodeContext;
    if (sameSets) {
      yield* this.#renderer.changingContext(nodeContext, this.#refused.servicePorts);
      return;
    }
    this.#renderer = new Renderer(this.#parts.cache, nodeContext);
    this.#kernelState = "unknown";
    this.requestFullSync("configuration");
    yield* this.#renderer.updating(this.#parts.cache.serviceNames(), this.#refused.servicePorts);
  }

  /** Sends a repair first, because packets need it now, and then the pending changes. */
  async #partial(): Promise<SyncResult> {
    const { nft, tables, chunkSize } = this.#parts;
    const { missingFamilies, deltas, comparisonReason, comparisonMs, author } = this.#repairs.begin();
    const newTables = creations(missingFamilies, this.state.ruleset);
    if (newTables.length > 0 && (await this.#anyExists(newTables)))
      return { ...(await this.#full("drift")), author };
    const pending = this.state.pending().filter(({ family }) => !missingFamilies.has(family));
    const drift = [...newTables, ...unexplained(deltas, pending)];
    const { main, objectDeletions } = withoutObjectDeletions(pending);
    const commitsBefore = nft.commits;
    try {
      const repaired = await applyDeltas(nft, tables, drift, { chunkSize });
      this.#staleChains.clear(missingFamilies);
      const staleChains = this.#staleChains.deletions;
      const applied = [...repaired, ...(await applyDeltas(nft, tables, main, { chunkSize, staleChains }))];
      this.state.markCommitted();
      this.#staleChains.add(objectDeletions);
      const kind = applied.length === 0 ? "nothing" : "partial";
      return {
        // A sync for which everything was compared is reported as a full one.
        kind: comparisonReason === undefined ? kind : "full",
        reason: comparisonReason ?? (drift.length === 0 ? undefined : "drift"),
        deltas: [...drift, ...main.filter((delta) => !isEmptyDelta(delta))],
        applied,
        drift,
        author,
        comparisonMs,
        refused: [],
      };
    } catch (error) {
      this.#noteFailure(error, commitsBefore);
      // Either the kernel's state is not as we left it, or the kernel refuses our changes: the full sync
      // finds out.
      if (!isRefusedByKernel(error)) throw error;
      const result = await this.#full(drift.length === 0 ? "failure" : "drift");
      // The repair may have succeeded before the failure.
      return { ...result, drift: result.drift.length > 0 ? result.drift : drift, author };
    }
  }

  /**
   * Whether any of these tables exists: another program may have created it, and it must not be filled twice.
   */
  async #anyExists(tables: readonly TableDelta[]): Promise<boolean> {
    const names = await tableNames(this.#parts.nft);
    return tables.some(({ family, table }) => names.has(`${family} ${table}`));
  }

  async #full(reason: FullSyncReason): Promise<SyncResult> {
    // A full sync that is requested from now on follows later: its cause may be newer than what this one
    // reads.
    this.#fullSync = undefined;
    this.#isFullSyncUnderWay = true;
    // The repair that is due is under way, too: the comparison finds its differences.
    this.#repairs.begin();
    // Unless the kernel has the committed state, drift cannot be told from our own changes.
    const ownChanges =
      this.#kernelState === "committed"
        ? [...this.state.pending(), ...this.#staleChains.deletions]
        : undefined;
    const { nft, tables } = this.#parts;
    const commitsBefore = nft.commits;
    try {
      const report = await fullSync(nft, tables, this.state.ruleset, {
        state: this.state,
        keepsIds: this.#kernelState !== "unknown",
        chunkSize: this.#parts.chunkSize,
        ...(this.#kernelState === "unknown" && { adopt: (kernel: Ruleset) => this.#adopt(kernel) }),
      });
      const drift = ownChanges === undefined ? [] : unexplained(report.deltas, ownChanges);
      this.#kernelState = "committed";
      this.#staleChains.clear();
      this.state.markCommitted();
      return { kind: "full", reason, ...report, drift, refused: [] };
    } catch (error) {
      this.#noteFailure(error, commitsBefore);
      const refused = await this.#quarantineCause(error);
      const isSolved = refused.length > 0 || (isRefusedByKernel(error) && (await this.#excludeFamily(error)));
      if (!isSolved) throw error;
      const result = await this.#full(reason);
      return { ...result, refused: [...refused, ...result.refused] };
    }
  }

  #noteFailure(error: unknown, commitsBefore: number): void {
    // An nft that was killed may have committed first.
    const mayHaveTakenEffect =
      this.#parts.nft.commits > commitsBefore || error instanceof TransactionFailedError;
    if (mayHaveTakenEffect && this.#kernelState === "committed") this.#kernelState = "in-doubt";
  }

  /** Adopts the state that an earlier process left in the kernel. */
  async #adopt(kernel: Ruleset): Promise<void> {
    const { cache, stateParts = [], tables, checksHealth = false } = this.#parts;
    for (const part of stateParts) await part.adopt(kernel, this.state, remainingTimes(tables));
    if (!checksHealth) return;
    const services = adoptEjected(cache, kernel, this.state, this.#nodeContext);
    if (services.size > 0) this.#renderer.update(services, this.#refused.servicePorts);
  }

  /**
   * Excludes the family whose table the kernel refuses.
   * @returns false if the refusal has another cause
   */
  async #excludeFamily({ message }: AppError): Promise<boolean> {
    const { nft } = this.#parts;
    const family = await refusedFamily(this.state.ruleset, (ruleset) => areTablesAccepted(nft, ruleset));
    if (family === undefined) return false;
    this.#refused.exclude(family, message);
    await inTurns(this.#renderAll(this.#refused.programmed(this.#nodeContext)));
    this.#putStateParts();
    return true;
  }

  /**
   * Quarantines the service ports that made a sync fail, which the desired state then lacks.
   * @returns none if the failure has another cause, or has not repeated yet
   */
  async #quarantineCause(error: unknown): Promise<readonly ServicePortKey[]> {
    const { nft, tables } = this.#parts;
    if (isRefusedByKernel(error)) {
      const refused = await refusedServicePorts(nft, tables, this.#nodeContext, this.state);
      this.#removeServicePorts(refused);
      this.#refused.quarantine(refused);
      return refused;
    }
    if (!(error instanceof TransactionFailedError) || !this.#refused.isRepeated(error)) return [];
    const failing = await failingServicePorts(nft, tables, this.#nodeContext, this.state);
    this.#removeServicePorts(failing);
    this.#refused.quarantineFailing(failing, error);
    return failing;
  }

  /**
   * Quarantines the service ports on probation that still make nft fail, before anything else is sent with
   * them.
   */
  async #tryProbation(): Promise<void> {
    const { probation } = this.#refused;
    if (probation.size === 0) return;
    const { nft, tables } = this.#parts;
    const failing = await failingServicePorts(nft, tables, this.#nodeContext, this.state, probation);
    this.#removeServicePorts(failing);
    this.#refused.endProbation(failing);
  }

  #removeServicePorts(keys: readonly ServicePortKey[]): void {
    for (const key of keys) for (const family of Object.values(this.state.families)) family.remove(key);
    // The kernel may refuse what they leave behind, too.
    this.state.deleteAllStale();
    this.state.divideIntervals();
  }
}

type SyncResult = Omit<SyncOutcome, "rendered" | "waiting">;
