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
