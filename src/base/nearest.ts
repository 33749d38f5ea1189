/**
 * The candidate that a mistyped word most probably means: at most a third of its letters differ (one at least);
 * undefined when none is that near. Of several equally near ones, the first.
 */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  let best: string | undefined;
  let least = Math.max(1, Math.floor(word.length / 3)) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(word, candidate, least);
    if (distance < least) [best, least] = [candidate, distance];
  }
  return best;
}

/** All candidates, those first whose letters differ least from the word; equally near ones in alphabetical order. */
export function byNearness(word: string, candidates: Iterable<string>): string[] {
  const distances = [...candidates].map((name) => ({
    name,
    distance: editDistance(word, name, word.length + name.length),
  }));
  distances.sort((a, b) => a.distance - b.distance || (a.name < b.name ? -1 : 1));
  return distances.map(({ name }) => name);
}

/** Insertions, deletions, replacements and swaps of neighbours that make `b` of `a`; `most` when there are more. */
function editDistance(a: string, b: string, most: number): number {
  if (Math.abs(a.length - b.length) >= most) return most;
  let [before, previous] = [[] as number[], Array.from({ length: b.length + 1 }, (_, index) => index)];
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const isSame = a[i - 1] === b[j - 1];
      const steps = [(previous[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (previous[j - 1] ?? 0) + (isSame ? 0 : 1)];
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) steps.push((before[j - 2] ?? 0) + 1);
      row.push(Math.min(...steps));
    }
    [before, previous] = [previous, row];
  }
  return Math.min(previous[b.length] ?? most, most);
}
