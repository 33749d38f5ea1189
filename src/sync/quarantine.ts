import type { ServicePortKey } from "../model/ids.ts";
import type { FamilyState, RulesetState } from "../ruleset/ruleset-state.ts";
import type { ServicePortRules } from "../ruleset/service-port-rules.ts";

/** Whether a selection is accepted. */
type Attempt<T> = (selection: readonly T[]) => Promise<boolean>;

/**
 * Finds the members of a list that something refuses, by halving: everything else is accepted. Costs about
 * 2 log2 n attempts for each refused member, all of them together as much as a few attempts with the whole list.
 * @param candidates each may be refused by itself or in company
 * @returns the refused ones
 * @throws whatever `attempt` throws
 */
export async function isolate<T>(candidates: readonly T[], attempt: Attempt<T>): Promise<T[]> {
  const refused = await halved(candidates, (part) => attempt(part));
  const rest = candidates.filter((candidate) => !refused.includes(candidate));
  if (refused.length > 0 && (await attempt(rest))) return refused;
  // Some are refused only in company, which is rare: each part is tried together with all that was accepted before.
  const accepted: T[] = [];
  const inCompany = await halved(rest, async (part) => {
    const isAccepted = await attempt([...accepted, ...part]);
    if (isAccepted) accepted.push(...part);
    return isAccepted;
  });
  return [...refused, ...inCompany];
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

/** A service port that may be what the kernel refuses: what the kernel has of it, and what it is to have. */
export interface Suspect {
  readonly state: FamilyState;
  readonly key: ServicePortKey;
  readonly before: ServicePortRules | undefined;
  readonly after: ServicePortRules | undefined;
}

/** The service ports that the kernel does not have as they are wanted: what it refuses is among them. */
export function suspectsOf(state: RulesetState): Suspect[] {
  return Object.values(state.families).flatMap((family) =>
    family
      .uncommitted()
      .map(({ key, before }) => ({ state: family, key, before, after: family.servicePortRules(key) })),
  );
}

/** Makes the state as if only the selected suspects had changed. */
export function select(suspects: readonly Suspect[], selection: ReadonlySet<Suspect>): void {
  for (const suspect of suspects) {
    const { state, key, before, after } = suspect;
    const wanted = selection.has(suspect) ? after : before;
    if (wanted === state.servicePortRules(key)) continue;
    if (wanted === undefined) state.remove(key);
    else state.put(wanted);
  }
}
