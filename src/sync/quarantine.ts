import { FAMILIES, type Family } from "../base/family.ts";
import type { Nft } from "../kernel/nft.ts";
import { isRefusal } from "../kernel/nft-errors.ts";
import { type KernelState, readKernel } from "../kernel/read-kernel.ts";
import { type ServiceName, type ServicePortKey, serviceOf } from "../model/ids.ts";
import type { Transaction } from "../nft/ast/json.ts";
import type { Ruleset } from "../nft/ast/ruleset.ts";
import { creation, diffRuleset, type TableDelta } from "../nft/delta.ts";
import { toTransaction, withoutChainDeletions } from "../nft/transaction.ts";
import type { FamilyState } from "../ruleset/family-state.ts";
import type { NodeContext } from "../ruleset/node-context.ts";
import { RulesetState } from "../ruleset/ruleset-state.ts";
import type { ServicePortRules } from "../ruleset/service-port-rules.ts";

/** How long the kernel is not asked again about rules that it refused, milliseconds: each try costs a full sync. */
export const QUARANTINE_RETRY = 300_000;

/** A service port that may be the cause of a refusal: its rules in the kernel, and those that it should have. */
export interface Suspect {
  readonly key: ServicePortKey;
  readonly before: ServicePortRules | undefined;
  readonly after: ServicePortRules | undefined;
}

/** A search for the service ports whose rules are refused. */
export interface Search {
  readonly nodeContext: NodeContext;
  /** The state whose list ids the trials have; absent for ids of their own. */
  readonly idsOf?: RulesetState;
  /** Rules that have been accepted. */
  readonly accepted: Iterable<ServicePortRules>;
  readonly suspects: readonly Suspect[];
  /** Whether a ruleset would be accepted. */
  readonly accepts: (ruleset: Ruleset) => Promise<boolean>;
}

/**
 * Finds the service ports whose rules are refused, by bisection. Each attempt is made with a trial ruleset built
 * here: the desired state, which others read meanwhile, stays as it is.
 * @returns none when the refusal has another cause
 * @throws whatever `accepts` throws
 */
export async function findRefused({ nodeContext, idsOf, accepted, suspects, accepts }: Search): Promise<Suspect[]> {
  if (suspects.length === 0) return [];
  const trial = new RulesetState(nodeContext, idsOf);
  for (const rules of accepted) trial.families[rules.port.family]?.put(rules);
  const attempt: Attempt<Suspect> = async (selection) => {
    apply(trial, suspects, new Set(selection));
    return await accepts(trial.ruleset);
  };
  return (await attempt([])) ? await bisect(suspects, attempt) : [];
}

/**
 * Finds the service ports of the desired state that the kernel refuses, by asking it without changing anything.
 * @returns none when a refusal has another cause
 * @throws as {@link Nft.check} for anything but refusals
 */
export async function refusedServicePorts(
  nft: Nft,
  nodeContext: NodeContext,
  state: RulesetState,
): Promise<ServicePortKey[]> {
  const { ruleset, families } = state;
  const kernel = await readKernel(nft, Object.keys(ruleset) as Family[]);
  const suspects = Object.values(families).flatMap(suspectsOf);
  const suspected = new Set(suspects.map(({ after }) => after));
  const rules = Object.values(families).flatMap((family) => [...family.allServicePortRules()]);
  const found = await findRefused({
    nodeContext,
    idsOf: state,
    accepted: rules.filter((one) => !suspected.has(one)),
    suspects,
    accepts: (trial) => isAccepted(nft, toTransaction(trialChanges(kernel, trial))),
  });
  // One whose removal is refused has no rules to take out. Nothing to quarantine; skip it, or every retry finds it again.
  return found.flatMap(({ key, after }) => (after === undefined ? [] : [key]));
}

/** The service ports whose rules the kernel does not have yet: what it refuses is among them. */
function suspectsOf(family: FamilyState): Suspect[] {
  return family.uncommitted().map(({ key, before }) => ({ key, before, after: family.servicePortRules(key) }));
}

/** Whether the kernel would take a transaction. @throws as {@link Nft.check} for anything but refusals */
export async function isAccepted(nft: Pick<Nft, "check">, transaction: Transaction): Promise<boolean> {
  if (transaction.nftables.length === 0) return true;
  try {
    await nft.check(transaction);
    return true;
  } catch (error) {
    if (isRefusal(error)) return false;
    throw error;
  }
}

/**
 * The changes that a trial asks the kernel about, without deletions of chains: no service port is to blame for those that
 * some kernels refuse. Tables that cannot be read are made anew.
 */
function trialChanges(kernel: KernelState, trial: Ruleset): readonly TableDelta[] {
  if (kernel.kind === "unreadable") return Object.values(trial).map((table) => creation(table, "recreate"));
  return withoutChainDeletions(diffRuleset(kernel.ruleset, trial)).main;
}

/** Makes the trial as if only the selected suspects had changed. */
function apply(trial: RulesetState, suspects: readonly Suspect[], selection: ReadonlySet<Suspect>): void {
  for (const suspect of suspects) {
    const { key, before, after } = suspect;
    const family = trial.families[(after ?? before)?.port.family ?? "ip"];
    const wanted = selection.has(suspect) ? after : before;
    if (family === undefined || wanted === family.servicePortRules(key)) continue;
    if (wanted === undefined) family.remove(key);
    else family.put(wanted);
  }
}

/** Whether a selection is accepted. */
export type Attempt<T> = (selection: readonly T[]) => Promise<boolean>;

/**
 * Finds the members of a list that are refused, by halving; everything else is accepted. Costs about 2 log2 n attempts
 * for each refused member, all of them together as much as a few attempts with the whole list.
 * @param candidates each may be refused by itself or together with others
 * @returns the refused ones
 * @throws whatever `attempt` throws
 */
export async function bisect<T>(candidates: readonly T[], attempt: Attempt<T>): Promise<T[]> {
  const refused = await halved(candidates, (part) => attempt(part));
  const rest = candidates.filter((candidate) => !refused.includes(candidate));
  if (refused.length > 0 && (await attempt(rest))) return refused;
  // Refused only together, which is rare: each part is tried with everything that was accepted before it.
  const accepted: T[] = [];
  const together = await halved(rest, async (part) => {
    const isAccepted = await attempt([...accepted, ...part]);
    if (isAccepted) accepted.push(...part);
    return isAccepted;
  });
  return [...refused, ...together];
}

async function halved<T>(candidates: readonly T[], attempt: Attempt<T>): Promise<T[]> {
  const refused: T[] = [];
  const queue: (readonly T[])[] = [candidates];
  for (let part = queue.shift(); part !== undefined; part = queue.shift()) {
    if (part.length === 0 || (await attempt(part))) continue;
    if (part.length === 1) refused.push(...part);
    else queue.unshift(part.slice(0, part.length >> 1), part.slice(part.length >> 1));
  }
  return refused;
}

/**
 * Finds the family whose table is refused, when the other one alone is accepted: a kernel without IPv6, or without a
 * feature for it.
 * @param accepts whether a ruleset would be accepted, whatever the kernel has now
 * @returns undefined when both are refused or accepted, or there is only one
 */
export async function refusedFamily(
  ruleset: Ruleset,
  accepts: (ruleset: Ruleset) => Promise<boolean>,
): Promise<Family | undefined> {
  const refused: Family[] = [];
  const programmed = FAMILIES.filter((family) => ruleset[family] !== undefined);
  for (const family of programmed) {
    const table = ruleset[family];
    if (table !== undefined && !(await accepts({ [family]: table }))) refused.push(family);
  }
  return refused.length === 1 && programmed.length > 1 ? refused[0] : undefined;
}

/** The parts of the desired state that are not programmed because the kernel refuses them. */
export class RefusedRules {
  #servicePorts: ReadonlySet<ServicePortKey> = new Set();
  #families: ReadonlyMap<Family, string> = new Map();
  #isRetryDue = false;

  /** Service ports without rules, in quarantine. */
  get servicePorts(): ReadonlySet<ServicePortKey> {
    return this.#servicePorts;
  }

  /** Families without tables, with the kernel's reason. */
  get families(): ReadonlyMap<Family, string> {
    return this.#families;
  }

  /** Puts service ports into quarantine. */
  quarantine(keys: readonly ServicePortKey[]): void {
    this.#servicePorts = new Set([...this.#servicePorts, ...keys]);
  }

  /** Excludes a family. */
  exclude(family: Family, reason: string): void {
    this.#families = new Map([...this.#families, [family, reason]]);
  }

  /** The node context of the families that are not excluded. */
  programmed(nodeContext: NodeContext): NodeContext {
    return nodeContext.filter(({ family }) => !this.#families.has(family));
  }

  /** Lets the next sync try again everything that was refused. @returns whether there is anything to try */
  retry(): boolean {
    this.#isRetryDue = this.#servicePorts.size + this.#families.size > 0;
    return this.#isRetryDue;
  }

  /**
   * Ends the quarantine of Services that changed, and of everything when a retry is due.
   * @returns the service ports whose quarantine ended
   */
  takeRetries(changed: ReadonlySet<ServiceName>): ServicePortKey[] {
    const retried = [...this.#servicePorts].filter((key) => this.#isRetryDue || changed.has(serviceOf(key)));
    if (this.#isRetryDue) this.#families = new Map();
    this.#isRetryDue = false;
    if (retried.length > 0) {
      this.#servicePorts = new Set([...this.#servicePorts].filter((key) => !retried.includes(key)));
    }
    return retried;
  }
}
