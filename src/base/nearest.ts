import leven, { closestMatch } from "leven";

/**
 * The candidate that a mistyped word most probably means: at most a third of its letters differ, rounded up; undefined when
 * none is that near. Of several equally near ones, the first.
 */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  return closestMatch(word, [...candidates], { maxDistance: Math.ceil(word.length / 3) });
}

/** The hint for a mistyped word: `did you mean explain?`; undefined when none of the candidates is near. */
export function didYouMean(word: string, candidates: Iterable<string>): string | undefined {
  const near = nearest(word, candidates);
  return near === undefined ? undefined : `did you mean ${near}?`;
}

/** All candidates, those first whose letters differ least from the word; equally near ones in alphabetical order. */
export function byNearness(word: string, candidates: Iterable<string>): string[] {
  const distances = [...candidates].map((name) => ({ name, distance: leven(word, name) }));
  distances.sort((a, b) => a.distance - b.distance || (a.name < b.name ? -1 : 1));
  return distances.map(({ name }) => name);
}
