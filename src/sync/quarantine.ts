import type { KernelState } from "../kernel/read-kernel.ts";
import type { ServicePortKey } from "../model/ids.ts";
import type { Ruleset } from "../nft/ast/ruleset.ts";
import { creation, diffRuleset, type TableDelta } from "../nft/delta.ts";
import { withoutChainDeletions } from "../nft/transaction.ts";
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
export async function findRefused({ nodeContext, accepted, suspects, accepts }: Search): Promise<Suspect[]> {
  if (suspects.length === 0) return [];
  const trial = new RulesetState(nodeContext);
  for (const rules of accepted) trial.families[rules.port.family]?.put(rules);
  const attempt: Attempt<Suspect> = async (selection) => {
    apply(trial, suspects, new Set(selection));
    return await accepts(trial.ruleset);
  };
  return (await attempt([])) ? await bisect(suspects, attempt) : [];
}

/**
 * The changes that a trial asks the kernel about, without deletions of chains: no service port is to blame for those that
 * some kernels refuse. Tables that cannot be read are made anew.
 */
export function trialChanges(kernel: KernelState, trial: Ruleset): readonly TableDelta[] {
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
