import type { AppError } from "../base/errors.ts";
import type { Family } from "../base/family.ts";
import { type AppliedTransaction, isRefusal, type Nft, NftRefusedError } from "../kernel/nft.ts";
import { readKernel } from "../kernel/read-kernel.ts";
import { type ServiceName, type ServicePortKey, serviceOf } from "../model/ids.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import { diffRuleset, isEmptyDelta, type TableDelta, unexplained } from "../nft/delta.ts";
import { toTransaction, withoutChainDeletions } from "../nft/transaction.ts";
import type { NodeContext } from "../ruleset/node-context.ts";
import { Renderer } from "../ruleset/renderer.ts";
import type { RulesetState } from "../ruleset/ruleset-state.ts";
import { setSpecs } from "../ruleset/sets.ts";
import { applyDeltas, rebuild } from "./full-sync.ts";
import { isolate, type Suspect, select, suspectsOf } from "./quarantine.ts";

/** Why a full sync was asked for. */
export type FullSyncReason = "start" | "periodic" | "failure" | "drift" | "configuration";

/** What a sync did. */
export interface SyncReport {
  readonly kind: "nothing" | "partial" | "full";
  /** For a full sync: why. */
  readonly reason?: FullSyncReason;
  /** Services rendered again since the last sync that succeeded: they, their slices or the context changed. */
  readonly rendered: ReadonlySet<ServiceName>;
  /** What was sent to the kernel. */
  readonly deltas: readonly TableDelta[];
  readonly applied: readonly AppliedTransaction[];
  /** What a full sync found different from what the kernel was last told; empty unless someone interfered. */
  readonly drift: readonly TableDelta[];
  /** Our tables could not be read and were rebuilt, for this reason. */
  readonly unreadable?: string;
  /** Service ports that the kernel refused in this sync. */
  readonly refused: readonly ServicePortKey[];
}

/** What a reconciler works with. */
export interface ReconcilerParts {
  readonly cache: ObjectCache;
  readonly nft: Nft;
  /** The context as they are now. */
  readonly nodeContext: () => NodeContext;
  /** Most elements in one transaction of a cold start. */
  readonly chunkSize?: number;
}

/**
 * Brings the kernel to what the object cache wants. Usually it sends what changed since the last success; when it cannot
 * be sure what the kernel has, it reads our tables and repairs them. State is committed only when the kernel has
 * taken it.
 */
export class Reconciler {
  readonly #parts: ReconcilerParts;
  readonly #quarantined = new Set<ServicePortKey>();
  /** Chains that nothing leads to any more, by family. */
  #unused: TableDelta[] = [];
  #renderer: Renderer;
  #nodeContext: NodeContext;
  #fullSync: FullSyncReason | undefined = "start";
  /** The kernel has had the whole ruleset from us. */
  #established = false;
  /** What was rendered by syncs that then failed. */
  #rendered: ReadonlySet<ServiceName> = new Set();

  constructor(parts: ReconcilerParts) {
    this.#parts = parts;
    this.#nodeContext = parts.nodeContext();
    this.#renderer = new Renderer(parts.cache, this.#nodeContext, this.#quarantined);
  }

  /** The desired state. */
  get state(): RulesetState {
    return this.#renderer.state;
  }

  /** Service ports that are left out because the kernel refuses them. */
  get quarantined(): ReadonlySet<ServicePortKey> {
    return this.#quarantined;
  }

  /** The next sync compares everything with the kernel. */
  requestFullSync(reason: FullSyncReason): void {
    this.#fullSync ??= reason;
  }

  /** The next sync will compare everything with the kernel. */
  get isFullSyncDue(): boolean {
    return this.#fullSync !== undefined;
  }

  /** Whether these context make another ruleset than those of the last sync. */
  wouldChange(nodeContext: NodeContext): boolean {
    return JSON.stringify(nodeContext) !== JSON.stringify(this.#nodeContext);
  }

  /** The next sync tries again what the kernel refused. @returns whether there is anything to try */
  retryQuarantined(): boolean {
    const services = new Set([...this.#quarantined].map(serviceOf));
    this.#quarantined.clear();
    for (const name of services) this.#parts.cache.markDirty(name);
    return services.size > 0;
  }

  /**
   * One sync.
   * @throws AppError when the kernel could not be brought to the desired state; the next sync will be a full one
   */
  async sync(): Promise<SyncReport> {
    this.#rendered = new Set([...this.#rendered, ...this.#render()]);
    try {
      const outcome = this.#fullSync === undefined ? await this.#partial() : await this.#full(this.#fullSync);
      const rendered = this.#rendered;
      this.#rendered = new Set();
      return { ...outcome, rendered };
    } catch (error) {
      this.requestFullSync("failure");
      throw error;
    }
  }

  /**
   * Deletes chains that fell out of use. Kernels before 6.2 may answer that they are busy: then later.
   * @throws as {@link Nft.apply}; what is busy, or could not be asked for, is tried again by the next call
   */
  async tidy(): Promise<void> {
    const deletions = this.#unusedChains();
    this.#unused = [];
    if (deletions.length === 0) return;
    try {
      await this.#parts.nft.apply(toTransaction(deletions));
    } catch (error) {
      if (!(error instanceof NftRefusedError) || error.isBusy) this.#unused.push(...deletions);
      throw error;
    }
  }

  /** Each chain once: it may have come and gone several times since it was last looked at. */
  #unusedChains(): TableDelta[] {
    return Object.values(this.state.families).flatMap(({ table }) => {
      const own = this.#unused.filter(({ family }) => family === table.family);
      const names = new Set(
        own.flatMap(({ deletedChains }) => deletedChains).filter((name) => !table.chains.has(name)),
      );
      return own[0] === undefined || names.size === 0 ? [] : [{ ...own[0], deletedChains: [...names] }];
    });
  }

  #render(): ReadonlySet<ServiceName> {
    const all = this.#takeContexts(this.#parts.nodeContext());
    const changes = this.#parts.cache.takeDirty();
    for (const key of this.#quarantined) {
      if (changes.has(serviceOf(key))) this.#quarantined.delete(key);
    }
    this.#renderer.update(changes);
    return all ? new Set(this.#parts.cache.serviceNames()) : changes;
  }

  /** @returns whether all Services had to be rendered again */
  #takeContexts(nodeContext: NodeContext): boolean {
    if (!this.wouldChange(nodeContext)) return false;
    const sameSets = JSON.stringify(nodeContext.map(setSpecs)) === JSON.stringify(this.#nodeContext.map(setSpecs));
    this.#nodeContext = nodeContext;
    if (sameSets) {
      this.#renderer.setNodeContext(nodeContext);
      return true;
    }
    this.#renderer = new Renderer(this.#parts.cache, nodeContext, this.#quarantined);
    this.#renderer.update(new Set(this.#parts.cache.serviceNames()));
    this.requestFullSync("configuration");
    return true;
  }

  async #partial(): Promise<SyncOutcome> {
    const { main, deletions } = withoutChainDeletions(this.state.pending());
    const deltas = main.filter((delta) => !isEmptyDelta(delta));
    if (deltas.length === 0) return this.#succeeded({ ...NOTHING, deltas: [] }, deletions);
    try {
      const applied = [await this.#parts.nft.apply(toTransaction(deltas))];
      return this.#succeeded({ ...NOTHING, kind: "partial", deltas, applied }, deletions);
    } catch (error) {
      // Either the kernel is not as we left it, or it does not take what we send: the full sync finds out.
      if (!isRefusal(error)) throw error;
      return await this.#full("failure");
    }
  }

  async #full(reason: FullSyncReason): Promise<SyncOutcome> {
    const kernel = await readKernel(this.#parts.nft, Object.keys(this.state.ruleset) as Family[]);
    if (kernel.kind === "unreadable") {
      const applied = await rebuild(this.#parts.nft, this.state.ruleset);
      return this.#fullySucceeded({ ...NOTHING, kind: "full", reason, applied, unreadable: kernel.reason });
    }
    const deltas = diffRuleset(kernel.ruleset, this.state.ruleset);
    const drift = this.#established ? unexplained(deltas, [...this.state.pending(), ...this.#unused]) : [];
    try {
      const applied = await applyDeltas(this.#parts.nft, deltas, this.#parts.chunkSize);
      return this.#fullySucceeded({ ...NOTHING, kind: "full", reason, deltas, applied, drift });
    } catch (error) {
      if (!isRefusal(error)) throw error;
      const refused = await this.#quarantine(error);
      const outcome = await this.#full(reason);
      return { ...outcome, drift, refused: [...refused, ...outcome.refused] };
    }
  }

  /**
   * Finds the service ports that the kernel refuses, and leaves them out of the desired state.
   * @throws the refusal, when it has another cause
   */
  async #quarantine(refusal: AppError): Promise<ServicePortKey[]> {
    const kernel = await readKernel(this.#parts.nft, Object.keys(this.state.ruleset) as Family[]);
    if (kernel.kind === "unreadable") throw refusal;
    const suspects = suspectsOf(this.state);
    const attempt = async (selection: readonly Suspect[]): Promise<boolean> => {
      select(suspects, new Set(selection));
      return await this.#accepts(diffRuleset(kernel.ruleset, this.state.ruleset));
    };
    let refused: readonly Suspect[] = [];
    try {
      if (suspects.length > 0 && (await attempt([]))) refused = await isolate(suspects, attempt);
    } finally {
      select(suspects, new Set(suspects));
    }
    if (refused.length === 0) throw refusal;
    for (const { state, key } of refused) {
      state.remove(key);
      this.#quarantined.add(key);
    }
    return refused.map(({ key }) => key);
  }

  async #accepts(deltas: readonly TableDelta[]): Promise<boolean> {
    if (deltas.length === 0) return true;
    try {
      await this.#parts.nft.check(toTransaction(deltas));
      return true;
    } catch (error) {
      if (isRefusal(error)) return false;
      throw error;
    }
  }

  #fullySucceeded(outcome: SyncOutcome): SyncOutcome {
    this.#fullSync = undefined;
    this.#established = true;
    this.#unused = [];
    return this.#succeeded(outcome, []);
  }

  #succeeded(outcome: SyncOutcome, unused: readonly TableDelta[]): SyncOutcome {
    this.state.committed();
    this.#unused.push(...unused);
    return outcome;
  }
}

type SyncOutcome = Omit<SyncReport, "rendered">;

const NOTHING: SyncOutcome = { kind: "nothing", deltas: [], applied: [], drift: [], refused: [] };
