/**
 * Finds the members of a list that something refuses, by halving: everything else is accepted. Costs about
 * 2 log2 n attempts for each refused member.
 * @param candidates each may be refused by itself or in company
 * @param attempt whether this selection is accepted
 * @returns the refused ones
 * @throws whatever `attempt` throws
 */
export async function isolate<T>(
  candidates: readonly T[],
  attempt: (selection: readonly T[]) => Promise<boolean>,
): Promise<T[]> {
  const accepted: T[] = [];
  const refused: T[] = [];
  const queue: (readonly T[])[] = [candidates];
  for (let part = queue.shift(); part !== undefined; part = queue.shift()) {
    if (part.length === 0) continue;
    if (await attempt([...accepted, ...part])) accepted.push(...part);
    else if (part.length === 1) refused.push(...part);
    else queue.unshift(part.slice(0, part.length >> 1), part.slice(part.length >> 1));
  }
  return refused;
}
