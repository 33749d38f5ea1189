import type { AppError } from "../base/errors.ts";
import type { Family } from "../base/family.ts";
import { adoptVanished, type VanishedEndpoints } from "../conntrack/vanished-endpoints.ts";
import type { Nft } from "../kernel/nft.ts";
import { isRefusedByKernel, NftRefusedError, TransactionFailedError } from "../kernel/nft-errors.ts";
import { tableNames } from "../kernel/nft-listings.ts";
import type { TableReader } from "../kernel/table-reader.ts";
import { type ServiceName, type ServicePortKey, serviceOf } from "../model/ids.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import type { Ruleset, Table } from "../nft/ast/ruleset.ts";
import { creation, isEmptyDelta, type TableDelta, unexplained } from "../nft/delta.ts";
import { rebuildTransaction, toTransaction } from "../nft/transaction.ts";
import { withoutChainDeletions } from "../ruleset/apply-plan.ts";
import type { NodeContext } from "../ruleset/node-context.ts";
import { Renderer } from "../ruleset/renderer.ts";
import type { RulesetState } from "../ruleset/ruleset-state.ts";
import { setSpecs } from "../ruleset/sets.ts";
import { applyDeltas } from "./apply-deltas.ts";
import { fullSync } from "./full-sync.ts";
import {
  failingServicePorts,
  isAccepted,
  RefusedRules,
  refusedFamily,
  refusedServicePorts,
} from "./quarantine.ts";
import type { Quarantine } from "./quarantine-changes.ts";
import type { FullSyncReason, SyncOutcome } from "./sync-report.ts";
import { inTurns } from "./turns.ts";

/** Parts of a {@link Reconciler}. */
export interface ReconcilerParts {
  readonly cache: ObjectCache;
  readonly nft: Nft;
  readonly tables: TableReader;
  /** The most elements in one transaction of several. */
  readonly chunkSize?: number;
  /** The most elements that one sync changes where more wait, {@link PORTION} if absent. */
  readonly portion?: number;
  /** Endpoints whose connections are reset; absent where that is off. */
  readonly vanished?: VanishedEndpoints | undefined;
}

/** Why a service port is quarantined. */
const REFUSED_BY_KERNEL = "the kernel refuses its rules";
const FAILING = "nft fails over its rules";

/** After so many equal failures of nft in a row that are no refusals, the Service is looked for that is the cause. */
const EQUAL_FAILURES = 3;

/** What is known of a repair. */
export interface RepairOptions {
  /** Why everything was compared for it, so that the sync counts as a full one; absent when it was not. */
  readonly compared?: FullSyncReason;
  /** How long that took, milliseconds. */
  readonly comparisonMs?: number;
  /** The program whose changes are repaired; absent when it is not known. */
  readonly author?: string;
}

/**
 * Elements that a sync changes where more wait: the next one begins with the Services that changed meanwhile and are small, so
 * that nobody waits for another tenant's hundred thousand elements. nft and we take some 0.3 s for so many (2 cores, 6.18).
 */
const PORTION = 4000;

/** The input of a sync, besides the objects in the cache. */
export interface SyncInput {
  readonly nodeContext: NodeContext;
  /** Services that changed since the last call, whether or not that sync succeeded. */
  readonly services: Iterable<ServiceName>;
  /** All are rendered when {@link Reconciler.sync} returns, however long that takes: nothing else is done meanwhile. */
  readonly atOnce?: boolean;
}

/**
 * Brings the kernel to the state that the cached objects describe. Usually it sends what changed since the last
 * success; when the state of the kernel is not known for sure, it reads our tables and repairs them. A state is
 * committed only when the kernel has taken it.
 */
export class Reconciler {
  readonly #parts: ReconcilerParts;
  readonly #refused = new RefusedRules();
  readonly #staleChains = new StaleChains();
  #nodeContext: NodeContext = [];
  #renderer: Renderer;
  #fullSync: FullSyncReason | undefined = "start";
  readonly #repairs = new Repairs();
  /** The kernel has had the whole of this state. */
  #established = false;
  /** A sync under way compares everything, or repairs. */
  #isRepairing = false;
  /** Changes failed that may be in the kernel, all or some of them: what they left there is nobody else's. */
  #isHalfDone = false;
  /** Transactions over which nft failed for one reason since the last success, and at how many the cause is looked for. */
  #failures = { message: "", count: 0, lookAt: EQUAL_FAILURES };
  /** Service ports whose quarantine for failures of nft ended, with its reason: they are tried by themselves first. */
  #onProbation: ReadonlyMap<ServicePortKey, string> = new Map();
  /** The two kinds of quarantine, and both in one. */
  #quarantined: Readonly<Record<"excess" | "servicePorts" | "all", Quarantine>> | undefined;
  /** Services rendered since the last success. */
  #rendered = new Set<ServiceName>();

  constructor(parts: ReconcilerParts) {
    this.#parts = parts;
    this.#renderer = new Renderer(parts.cache, this.#nodeContext);
  }

  /** The desired state; empty before the first sync. */
  get state(): RulesetState {
    return this.#renderer.state;
  }

  /** Service ports that have no rules because the kernel refuses them or they exceed a limit, each with the reason. */
  get quarantined(): Quarantine {
    const { excess } = this.#renderer;
    const { servicePorts } = this.#refused;
    if (servicePorts.size === 0) return excess;
    const known = this.#quarantined;
    const isSame = known?.excess === excess && known.servicePorts === servicePorts;
    this.#quarantined = isSame ? known : { excess, servicePorts, all: new Map([...excess, ...servicePorts]) };
    return this.#quarantined.all;
  }

  /** Families without tables because the kernel refuses these, with its reason; the other family is programmed. */
  get excludedFamilies(): ReadonlyMap<Family, string> {
    return this.#refused.families;
  }

  /** The deletions of stale chains and their sets that are still to be sent. */
  get staleDeletions(): readonly TableDelta[] {
    return this.#staleChains.deletions;
  }

  /** Whether the next sync compares everything with the kernel. */
  get isFullSyncDue(): boolean {
    return this.#fullSync !== undefined;
  }

  /** Whether somebody else's changes are to be repaired, or everything is to be compared, from the request to the end of its sync. */
  get isRepairDue(): boolean {
    return this.#isRepairing || this.isFullSyncDue || this.#repairs.isAny;
  }

  /** Makes the next sync compare everything with the kernel. */
  requestFullSync(reason: FullSyncReason): void {
    this.#fullSync ??= reason;
  }

  /**
   * Makes the next sync repair what somebody else changed, without reading the kernel.
   * @param found differences from the desired state as of now, none that our own changes explain
   */
  requestRepair(found: readonly TableDelta[], options: RepairOptions = {}): void {
    if (found.some(({ mode }) => mode === "recreate")) this.requestFullSync("drift");
    else this.#repairs.add(unexplained(found, this.state.pending()), options);
  }

  /** Makes the next sync try again what the kernel refused. @returns whether there is anything to try */
  retryRefused(): boolean {
    return this.#refused.retry();
  }

  /** Whether the last sync used this node context. */
  isCurrent(nodeContext: NodeContext): boolean {
    return JSON.stringify(this.#refused.programmed(nodeContext)) === JSON.stringify(this.#nodeContext);
  }

  /**
   * One sync.
   * @throws AppError when the kernel could not be brought to the desired state; the next sync will be a full one
   */
  async sync(input: SyncInput): Promise<SyncOutcome> {
    const due = this.#fullSync;
    this.#isRepairing = this.isRepairDue;
    try {
      await this.#render(input);
      await this.#tryAgain();
      const result = this.#fullSync === undefined ? await this.#partial() : await this.#full(this.#fullSync);
      const { waiting } = this.#renderer;
      const rendered = new Set([...this.#rendered].filter((name) => !waiting.has(name)));
      this.#rendered = new Set(waiting);
      this.#failures = { message: "", count: 0, lookAt: EQUAL_FAILURES };
      return { ...result, rendered, waiting };
    } catch (error) {
      this.requestFullSync(due ?? "failure");
      throw error;
    } finally {
      this.#isRepairing = false;
    }
  }

  /**
   * Deletes stale chains. Kernels before 6.2 may answer that they are busy: then later.
   * @throws as {@link Nft.apply}; the next call tries again what was busy or could not be sent
   */
  async deleteStaleChains(): Promise<void> {
    const deletions = this.#staleChains.take(this.state.ruleset);
    if (deletions.length === 0) return;
    try {
      await this.#parts.nft.apply(toTransaction(deletions));
    } catch (error) {
      if (!(error instanceof NftRefusedError) || error.isBusy) this.#staleChains.add(deletions);
      throw error;
    }
  }

  async #render({ nodeContext, services, atOnce = false }: SyncInput): Promise<void> {
    const { cache } = this.#parts;
    const dirty = new Set(services);
    const { retried, failed } = this.#refused.takeRetries(dirty, (name) => cache.service(name) !== undefined);
    for (const key of retried) dirty.add(serviceOf(key));
    this.#onProbation = new Map([...this.#onProbation, ...failed]);
    for (const name of dirty) this.#rendered.add(name);
    this.#parts.vanished?.update(dirty);
    const isCurrent = this.isCurrent(nodeContext);
    const pieces = isCurrent
      ? this.#renderer.updating(dirty, this.#refused.servicePorts, this.#mostElements(atOnce))
      : this.#renderAll(this.#refused.programmed(nodeContext));
    try {
      if (atOnce) for (const _ of pieces);
      else await inTurns(pieces);
    } catch (error) {
      // Rules of any of them may be missing now: the next sync makes all rules anew, as for another node context.
      this.#nodeContext = [];
      throw error;
    }
    for (const name of this.#renderer.rendered) this.#rendered.add(name);
    this.#parts.vanished?.putInto(this.state);
  }

  /** How many elements this sync may change: all where the outcome is to be that of all objects of this moment. */
  #mostElements(atOnce: boolean): number {
    const isWhole = atOnce || this.isRepairDue || this.#onProbation.size > 0;
    return isWhole ? Number.POSITIVE_INFINITY : (this.#parts.portion ?? PORTION);
  }

  /** Set declarations cannot change in place; rebuild the state if they differ. @returns as {@link Renderer.updating} */
  *#renderAll(nodeContext: NodeContext): Generator<undefined> {
    for (const name of this.#parts.cache.serviceNames()) this.#rendered.add(name);
    const sameSets =
      JSON.stringify(nodeContext.map(setSpecs)) === JSON.stringify(this.#nodeContext.map(setSpecs));
    this.#nodeContext = nodeContext;
    if (sameSets) {
      yield* this.#renderer.changingContext(nodeContext, this.#refused.servicePorts);
      return;
    }
    this.#renderer = new Renderer(this.#parts.cache, nodeContext);
    this.#established = false;
    this.requestFullSync("configuration");
    yield* this.#renderer.updating(this.#parts.cache.serviceNames(), this.#refused.servicePorts);
  }

  async #partial(): Promise<SyncResult> {
    const { nft, tables, chunkSize } = this.#parts;
    const repairs = this.#repairs.take();
    const missing = Object.values(this.state.ruleset).filter(({ family }) => repairs.missing.has(family));
    const pending = this.state.pending().filter(({ family }) => !repairs.missing.has(family));
    const { main, deletions } = withoutChainDeletions(pending);
    if (missing.length > 0 && (await this.#areThere(missing))) return await this.#full("drift");
    const creations = missing.map((table) => creation(table, "create"));
    const drift = [...creations, ...unexplained(repairs.deltas, pending)];
    const changes = [...main.filter((delta) => !isEmptyDelta(delta)), ...drift.slice(creations.length)];
    const { commits } = nft;
    try {
      const deltas = [...creations, ...changes];
      const applied = await applyDeltas(nft, tables, deltas, { chunkSize, stale: this.staleDeletions });
      this.state.committed();
      this.#staleChains.add(deletions);
      const kind = repairs.compared !== undefined ? "full" : applied.length === 0 ? "nothing" : "partial";
      const reason = repairs.compared ?? (drift.length === 0 ? undefined : "drift");
      return {
        kind,
        ...(reason === undefined ? {} : { reason }),
        deltas,
        applied,
        drift,
        ...authorOf(repairs),
        comparisonMs: repairs.comparisonMs,
        refused: [],
      };
    } catch (error) {
      this.#noteFailure(error, commits);
      // Either the kernel is not as we left it, or it does not take what we send: the full sync finds out.
      if (!isRefusedByKernel(error)) throw error;
      const result = await this.#full(drift.length === 0 ? "failure" : "drift");
      // What was to be repaired may have been before the failure.
      return { ...(result.drift.length > 0 ? result : { ...result, drift }), ...authorOf(repairs) };
    }
  }

  /** Whether any of these tables is there, made by somebody else: it must not get everything a second time. */
  async #areThere(tables: readonly Table[]): Promise<boolean> {
    const names = await tableNames(this.#parts.nft);
    return tables.some(({ family, name }) => names.has(`${family} ${name}`));
  }

  async #full(reason: FullSyncReason): Promise<SyncResult> {
    // One that is requested from now on is done later: its cause may be newer than what this one reads.
    this.#fullSync = undefined;
    this.#isRepairing = true;
    this.#repairs.take();
    const isKnown = this.#established && !this.#isHalfDone;
    const own = isKnown ? [...this.state.pending(), ...this.#staleChains.deletions] : undefined;
    const { nft, tables } = this.#parts;
    const { commits } = nft;
    try {
      const report = await fullSync(nft, tables, this.state.ruleset, {
        state: this.state,
        keepsIds: this.#established,
        chunkSize: this.#parts.chunkSize,
        ...(this.#established ? {} : { adopt: (kernel: Ruleset) => this.#adopt(kernel) }),
      });
      const drift = own === undefined ? [] : unexplained(report.deltas, own);
      this.#established = true;
      this.#isHalfDone = false;
      this.#staleChains.clear();
      this.#repairs.created();
      this.state.committed();
      return { kind: "full", reason, ...report, drift, refused: [] };
    } catch (error) {
      this.#noteFailure(error, commits);
      const refused = await this.#findCause(error);
      if (refused.length === 0 && !(isRefusedByKernel(error) && (await this.#excludeFamily(error))))
        throw error;
      const result = await this.#full(reason);
      return { ...result, refused: [...refused, ...result.refused] };
    }
  }

  /** @param commits how many transactions there were before the changes that failed */
  #noteFailure(error: unknown, commits: number): void {
    // An nft that was killed may have been done already.
    this.#isHalfDone ||= this.#parts.nft.commits > commits || error instanceof TransactionFailedError;
  }

  /** Takes over what an earlier process left in the kernel. */
  async #adopt(kernel: Ruleset): Promise<void> {
    const { vanished, tables } = this.#parts;
    if (vanished !== undefined) await adoptVanished(vanished, tables, kernel, this.state);
  }

  /** Takes out the family whose table the kernel refuses. @returns false when the refusal has another cause */
  async #excludeFamily({ message }: AppError): Promise<boolean> {
    const { nft } = this.#parts;
    const family = await refusedFamily(this.state.ruleset, (ruleset) =>
      isAccepted(nft, rebuildTransaction(ruleset)),
    );
    if (family === undefined) return false;
    this.#refused.exclude(family, message);
    await inTurns(this.#renderAll(this.#refused.programmed(this.#nodeContext)));
    this.#parts.vanished?.putInto(this.state);
    return true;
  }

  /**
   * Takes the service ports out of the desired state over which a sync failed.
   * @returns none when the failure has another cause, or has not repeated yet
   */
  async #findCause(error: unknown): Promise<readonly ServicePortKey[]> {
    const { nft, tables } = this.#parts;
    if (isRefusedByKernel(error)) {
      const refused = await refusedServicePorts(nft, tables, this.#nodeContext, this.state);
      this.#takeOut(refused);
      this.#refused.quarantine(refused, REFUSED_BY_KERNEL);
      return refused;
    }
    if (!(error instanceof TransactionFailedError) || !this.#isRepeated(error)) return [];
    const failing = await failingServicePorts(nft, tables, this.#nodeContext, this.state);
    this.#quarantineFailing(failing, `${FAILING}: ${error.message}`);
    return failing;
  }

  /** Counts equal failures. @returns true for the third, and where that one had no Service as its cause, for the sixth and so on */
  #isRepeated({ message }: TransactionFailedError): boolean {
    const { count, lookAt } = this.#failures;
    const failures =
      message === this.#failures.message
        ? { message, count: count + 1, lookAt }
        : { message, count: 1, lookAt: EQUAL_FAILURES };
    const isDue = failures.count >= failures.lookAt;
    this.#failures = isDue ? { ...failures, lookAt: 2 * failures.lookAt } : failures;
    return isDue;
  }

  /** Quarantines the service ports on probation over which nft still fails, before anything else is sent with them. */
  async #tryAgain(): Promise<void> {
    const before = this.#onProbation;
    if (before.size === 0) return;
    const failing = await failingServicePorts(
      this.#parts.nft,
      this.#parts.tables,
      this.#nodeContext,
      this.state,
      before,
    );
    this.#onProbation = new Map();
    for (const key of failing) this.#quarantineFailing([key], before.get(key) ?? FAILING);
  }

  #quarantineFailing(keys: readonly ServicePortKey[], reason: string): void {
    this.#takeOut(keys);
    this.#refused.quarantineFailing(keys, reason);
  }

  #takeOut(keys: readonly ServicePortKey[]): void {
    for (const key of keys) for (const family of Object.values(this.state.families)) family.remove(key);
  }
}

type SyncResult = Omit<SyncOutcome, "rendered" | "waiting">;

function authorOf({ author }: { readonly author: string | undefined }): Pick<SyncOutcome, "author"> {
  return author === undefined ? {} : { author };
}

/** Differences that somebody else made, still to be repaired. */
class Repairs {
  #missing = new Set<Family>();
  #deltas: readonly TableDelta[] = [];
  #compared: FullSyncReason | undefined;
  #comparisonMs: number | undefined;
  #author: string | undefined;

  get isAny(): boolean {
    return this.#missing.size > 0 || this.#deltas.length > 0 || this.#compared !== undefined;
  }

  /** Adds differences, of which later ones are true. */
  add(found: readonly TableDelta[], { compared, comparisonMs, author }: RepairOptions): void {
    const changes = found.filter(({ mode }) => mode === "change");
    for (const { family, mode } of found) if (mode === "create") this.#missing.add(family);
    this.#deltas = [...unexplained(this.#deltas, changes), ...changes];
    this.#compared ??= compared;
    this.#comparisonMs ??= comparisonMs;
    this.#author = author ?? this.#author;
  }

  /** No table is missing any more. */
  created(): void {
    this.#missing = new Set();
  }

  /**
   * Takes all of them out.
   * @returns the families whose tables are missing, the differences of other tables, why everything was compared, and the author
   */
  take(): {
    readonly missing: ReadonlySet<Family>;
    readonly deltas: readonly TableDelta[];
    readonly compared: FullSyncReason | undefined;
    readonly comparisonMs: number | undefined;
    readonly author: string | undefined;
  } {
    const missing = this.#missing;
    const deltas = this.#deltas.filter(({ family }) => !missing.has(family));
    const compared = this.#compared;
    const comparisonMs = this.#comparisonMs;
    const author = this.#author;
    this.#comparisonMs = undefined;
    this.#author = undefined;
    this.#missing = new Set();
    this.#deltas = [];
    this.#compared = undefined;
    return { missing, deltas, compared, comparisonMs, author };
  }
}

/** The chains in the kernel that nothing leads to any more, and the sets that they looked into, still to be deleted. */
class StaleChains {
  #deletions: TableDelta[] = [];

  /** The deletions that are due, as deltas that do nothing else. */
  get deletions(): readonly TableDelta[] {
    return this.#deletions;
  }

  /** Adds deletions. */
  add(deletions: readonly TableDelta[]): void {
    this.#deletions.push(...deletions);
  }

  /** Drops all of them: the kernel has no stale chains. */
  clear(): void {
    this.#deletions = [];
  }

  /**
   * Takes the deletions out, with each chain and set once, and none that is in use again.
   * @param desired the tables as they should be
   */
  take(desired: Ruleset): TableDelta[] {
    const taken = this.#deletions;
    this.clear();
    return Object.values(desired).flatMap((table) => {
      const own = taken.filter(({ family }) => family === table.family);
      const names = new Set(
        own.flatMap(({ deletedChains }) => deletedChains).filter((name) => !table.chains.has(name)),
      );
      const sets = new Map(
        own
          .flatMap(({ deletedSets }) => deletedSets)
          .flatMap((spec) => (table.sets.has(spec.name) ? [] : [[spec.name, spec]])),
      );
      if (own[0] === undefined || names.size + sets.size === 0) return [];
      return [{ ...own[0], deletedChains: [...names], deletedSets: [...sets.values()] }];
    });
  }
}
