import type { Family } from "../base/family.ts";
import type { Nft } from "../kernel/nft.ts";
import { isRefusal } from "../kernel/nft-errors.ts";
import { type KernelState, readKernel } from "../kernel/read-kernel.ts";
import type { ServicePortKey } from "../model/ids.ts";
import type { Transaction } from "../nft/ast/json.ts";
import type { Ruleset } from "../nft/ast/ruleset.ts";
import { creation, diffRuleset, type TableDelta } from "../nft/delta.ts";
import { toTransaction, withoutChainDeletions } from "../nft/transaction.ts";
import type { FamilyState } from "../ruleset/family-state.ts";
import type { NodeContext } from "../ruleset/node-context.ts";
import { RulesetState } from "../ruleset/ruleset-state.ts";
import type { ServicePortRules } from "../ruleset/service-port-rules.ts";
import { type Attempt, bisect } from "./bisect.ts";

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
  // One whose removal is refused has no rules to take out: without this, the next try would find it again, and so on.
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
