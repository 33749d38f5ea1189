import type { Family } from "../base/family.ts";
import { groupBy } from "../base/group-by.ts";
import { FRONTEND_KINDS } from "../features/frontends.ts";
import type { Nft } from "../kernel/nft.ts";
import { isRefusedByKernel, TransactionFailedError } from "../kernel/nft-errors.ts";
import { type KernelState, readKernel } from "../kernel/read-kernel.ts";
import type { TableReader } from "../kernel/table-reader.ts";
import { type ServicePortKey, serviceOf } from "../model/ids.ts";
import type { Transaction } from "../nft/ast/json.ts";
import type { Ruleset } from "../nft/ast/ruleset.ts";
import { creation, diffRuleset, type TableDelta } from "../nft/delta.ts";
import { trialTransactions, withoutObjectDeletions } from "../ruleset/apply-plan.ts";
import type { FamilyState } from "../ruleset/family-state.ts";
import type { NodeContext } from "../ruleset/node-context.ts";
import { RulesetState } from "../ruleset/ruleset-state.ts";
import type { ServicePortRules } from "../ruleset/service-port-rules.ts";

/** How often refused rules are tried again, milliseconds: each try costs a full sync. */
export const QUARANTINE_RETRY_PERIOD = 300_000;

/** A service port that may cause a refusal, with its rules in the kernel and its desired ones. */
export interface Suspect {
  readonly key: ServicePortKey;
  readonly before: ServicePortRules | undefined;
  readonly after: ServicePortRules | undefined;
}

/** A search for the service ports whose rules are refused. */
export interface Search {
  readonly nodeContext: NodeContext;
  /** The state whose list ids the trials use; if absent, they have their own. */
  readonly idsOf?: RulesetState;
  /** Rules that have been accepted. */
  readonly accepted: Iterable<ServicePortRules>;
  readonly suspects: readonly Suspect[];
  /** Whether a ruleset would be accepted. */
  readonly accepts: (ruleset: Ruleset) => Promise<boolean>;
}

/** Whether a selection is accepted. */
export type Attempt<T> = (selection: readonly T[]) => Promise<boolean>;

/**
 * Finds the service ports whose rules are refused, by bisection. Attempts change a state of their own,
 * because others read the desired state meanwhile.
 * @returns none if the refusal has another cause
 * @throws whatever `accepts` throws
 */
export async function findRefused({
  nodeContext,
  idsOf,
  accepted,
  suspects,
  accepts,
}: Search): Promise<Suspect[]> {
  if (suspects.length === 0) return [];
  const rulesetWith = trialsOf(new RulesetState(nodeContext, idsOf), accepted, suspects);
  const attempt: Attempt<Suspect> = (selection) => accepts(rulesetWith(selection));
  return (await attempt([])) ? await bisect(suspects, attempt) : [];
}

/**
 * Finds the service ports of the desired state that the kernel refuses, by checks that change nothing.
 * @returns none if a refusal has another cause
 * @throws as {@link Nft.check} for anything but refusals
 */
export async function refusedServicePorts(
  nft: Nft,
  tables: TableReader,
  nodeContext: NodeContext,
  state: RulesetState,
): Promise<ServicePortKey[]> {
  const families = Object.keys(state.ruleset) as Family[];
  const areChangesAccepted = (kernel: KernelState, wanted: Ruleset) =>
    everyStep(trialChanges(kernel, wanted), (step) => isAccepted(nft, step));
  const kernel = await readKernel(tables, families);
  const { suspects, accepted } = suspectsIn(state);
  const found = await findRefused({
    nodeContext,
    idsOf: state,
    accepted,
    suspects,
    accepts: (trialRuleset) => areChangesAccepted(kernel, trialRuleset),
  });
  if (found.length === 0) return [];
  // Another program may have changed the tables after they were read: then the kernel refuses any change.
  if (await areChangesAccepted(await readKernel(tables, families), state.ruleset)) return [];
  // The kernel, or nft, may refuse whatever it gets.
  const emptyTables = Object.values(state.ruleset).map(({ family, name }) => ({
    add: { table: { family, name } },
  }));
  if (!(await isAccepted(nft, { nftables: emptyTables }))) return [];
  // A service port whose removal is refused has no rules to quarantine. Without this filter, every retry
  // would find it again.
  return found.flatMap(({ key, after }) => (after === undefined ? [] : [key]));
}

/**
 * Finds the Services whose changes make nft fail without a refusal: it is killed, crashes, hangs or lacks
 * memory. Each part is tried alone, so that their total size does not matter. A Service is found only if nft
 * fails on it alone, twice, and succeeds without any changes.
 * @param among the service ports that may be the cause; all changed ones if absent
 * @returns all service ports of these Services that may be the cause; none if the failures have another one
 * @throws as {@link Nft.check} for anything but refusals and such failures
 */
export async function failingServicePorts(
  nft: Nft,
  tables: TableReader,
  nodeContext: NodeContext,
  state: RulesetState,
  among?: Pick<ReadonlySet<ServicePortKey>, "has">,
): Promise<ServicePortKey[]> {
  const kernel = await readKernel(tables, Object.keys(state.ruleset) as Family[]);
  const { suspects, accepted } = suspectsIn(state);
  const rulesetWith = trialsOf(new RulesetState(nodeContext, state), accepted, suspects);
  const attempt: Attempt<readonly Suspect[]> = (selection) =>
    everyStep(trialChanges(kernel, rulesetWith(selection.flat())), (step) => isDone(nft, step));
  if (!(await attempt([]))) return [];
  const changed = suspects.filter(({ key, after }) => after !== undefined && (among?.has(key) ?? true));
  const groups = [...groupBy(changed, ({ key }) => serviceOf(key)).values()];
  const failing: (readonly Suspect[])[] = [];
  for (const group of await searchHalves(groups, attempt)) if (!(await attempt([group]))) failing.push(group);
  if (failing.length > 0 && !(await attempt([]))) return [];
  return failing.flat().map(({ key }) => key);
}

/** Tests each part of a trial separately, so that nft does not fail because of their number. */
async function everyStep(
  deltas: readonly TableDelta[],
  isSo: (step: Transaction) => Promise<boolean>,
): Promise<boolean> {
  for (const step of trialTransactions(deltas, FRONTEND_KINDS)) if (!(await isSo(step))) return false;
  return true;
}

/**
 * Whether nft finishes a transaction, accepted or refused.
 * @throws as {@link Nft.check} for other failures
 */
async function isDone(nft: Nft, transaction: Transaction): Promise<boolean> {
  try {
    await isAccepted(nft, transaction);
    return true;
  } catch (error) {
    if (error instanceof TransactionFailedError) return false;
    throw error;
  }
}

/** The service ports whose rules the kernel does not have yet, and the rules of the others. */
function suspectsIn({ families }: RulesetState): Pick<Search, "suspects" | "accepted"> {
  const suspects = Object.values(families).flatMap(suspectsOf);
  const suspected = new Set(suspects.map(({ after }) => after));
  const rules = Object.values(families).flatMap((family) => [...family.allServicePortRules()]);
  return { suspects, accepted: rules.filter((one) => !suspected.has(one)) };
}

/** The service ports whose rules the kernel does not have yet. Refused ones are among them. */
function suspectsOf(family: FamilyState): Suspect[] {
  return family
    .uncommitted()
    .map(({ key, before }) => ({ key, before, after: family.servicePortRules(key) }));
}

/**
 * Whether the kernel would accept these tables in place of its own, whatever it has now: another program may
 * have made tables of our name with other sets.
 * @throws as {@link Nft.check} for anything but refusals
 */
export function areTablesAccepted(nft: Nft, ruleset: Ruleset): Promise<boolean> {
  const anew = Object.values(ruleset).map((table) => creation(table, "recreate"));
  return everyStep(anew, (step) => isAccepted(nft, step));
}

/** Whether the kernel would accept a transaction. @throws as {@link Nft.check} for anything but refusals */
async function isAccepted(nft: Nft, transaction: Transaction): Promise<boolean> {
  if (transaction.nftables.length === 0) return true;
  try {
    await nft.check(transaction);
    return true;
  } catch (error) {
    if (isRefusedByKernel(error)) return false;
    throw error;
  }
}

/**
 * The changes that a trial checks, without deletions of chains: some kernels refuse these, and no service
 * port is the cause. Unreadable tables are recreated.
 */
function trialChanges(kernel: KernelState, wanted: Ruleset): readonly TableDelta[] {
  if (kernel.kind === "unreadable") return Object.values(wanted).map((table) => creation(table, "recreate"));
  return withoutObjectDeletions(diffRuleset(kernel.ruleset, wanted)).main;
}

/**
 * Makes trial rulesets, all in one state, which is empty: the accepted rules, with the changes of the
 * selection.
 */
function trialsOf(state: RulesetState, accepted: Iterable<ServicePortRules>, suspects: readonly Suspect[]) {
  for (const rules of accepted) state.families[rules.port.family]?.put(rules);
  return (selection: readonly Suspect[]): Ruleset => {
    apply(state, suspects, new Set(selection));
    state.deleteAllStale();
    state.divideIntervals();
    return state.ruleset;
  };
}

/**
 * Changes the state of the trials as if only the selected suspects had changed. Others keep their earlier
 * rules, which together with the selected ones may need more sticky ids than exist. So service ports that are
 * not sticky in the desired state are last to get one, and the state may lack some of them.
 */
function apply(state: RulesetState, suspects: readonly Suspect[], selection: ReadonlySet<Suspect>): void {
  const all = suspects.flatMap((suspect) => {
    const { key, before, after } = suspect;
    // Without either, it was added and removed since the last commit: nothing to change.
    const port = (after ?? before)?.port;
    const family = port && state.families[port.family];
    const wanted = selection.has(suspect) ? after : before;
    const current = family?.servicePortRules(key);
    return family === undefined ? [] : [{ key, family, current, wanted, after }];
  });
  const changes = all.filter(({ current, wanted }) => wanted !== current);
  for (const { key, family, current, wanted } of changes)
    if (wanted === undefined || (needsStickyId(current) && !needsStickyId(wanted))) family.remove(key);
  const isToLoseId = ({ wanted, after }: (typeof all)[number]) =>
    needsStickyId(wanted) && !needsStickyId(after);
  for (const { key, family, wanted } of changes.filter((change) => !isToLoseId(change))) {
    if (wanted === undefined) continue;
    if (!hasIdFor(family, wanted)) freeStickyIds(family, suspects);
    if (hasIdFor(family, wanted)) family.put(wanted);
    else family.remove(key);
  }
  for (const { key, family, wanted } of all.filter(isToLoseId))
    if (wanted !== undefined && wanted !== family.servicePortRules(key) && hasIdFor(family, wanted))
      family.put(wanted);
}

/** Whether a list id is left for rules. Intervals hold the ids of removed service ports until divided. */
function hasIdFor(family: FamilyState, rules: ServicePortRules): boolean {
  const hasId = () => family.ids.hasFor(rules.port.key, needsStickyId(rules));
  if (!hasId()) family.divideIntervals();
  return hasId();
}

function needsStickyId(rules: ServicePortRules | undefined): boolean {
  return rules?.lists.isSticky === true;
}

/** Removes the service ports that are to lose their sticky ids. */
function freeStickyIds(family: FamilyState, suspects: readonly Suspect[]): void {
  for (const { key, after } of suspects)
    if (needsStickyId(family.servicePortRules(key)) && !needsStickyId(after)) family.remove(key);
}

/**
 * Finds the refused members of a list by halving; all others are accepted. Takes about 2 log2 n attempts for
 * each refused member, which together cost as much as a few attempts with the whole list.
 * @param candidates each may be refused alone or together with others
 * @returns the refused ones
 * @throws whatever `attempt` throws
 */
export async function bisect<T>(candidates: readonly T[], attempt: Attempt<T>): Promise<T[]> {
  const refused = await searchHalves(candidates, attempt);
  const rest = candidates.filter((candidate) => !refused.includes(candidate));
  if (refused.length > 0 && (await attempt(rest))) return refused;
  // Some, or even all, are refused only together, which is rare: each part is tried with everything accepted
  // before it.
  const accepted: T[] = [];
  const together = await searchHalves(rest, async (part) => {
    const isPartAccepted = await attempt([...accepted, ...part]);
    if (isPartAccepted) accepted.push(...part);
    return isPartAccepted;
  });
  return [...refused, ...together];
}

/** Tries a list, and the halves of each part that fails. @returns the members that fail alone */
async function searchHalves<T>(candidates: readonly T[], attempt: Attempt<T>): Promise<T[]> {
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
 * Finds the family whose table is refused while the other one alone is accepted: the kernel may lack IPv6, or
 * a feature for it.
 * @param accepts whether a ruleset would be accepted, whatever the kernel has now
 * @returns undefined if both are refused or accepted, or there is only one
 */
export async function refusedFamily(
  ruleset: Ruleset,
  accepts: (ruleset: Ruleset) => Promise<boolean>,
): Promise<Family | undefined> {
  const { ip, ip6 } = ruleset;
  if (ip === undefined || ip6 === undefined) return undefined;
  const areAccepted = { ip: await accepts({ ip }), ip6: await accepts({ ip6 }) };
  if (areAccepted.ip === areAccepted.ip6) return undefined;
  const [family, refused] = areAccepted.ip ? (["ip6", { ip6 }] as const) : (["ip", { ip }] as const);
  // The cause may have ended between the two attempts.
  return (await accepts(refused)) ? undefined : family;
}
