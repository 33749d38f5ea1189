import leven, { closestMatch } from "leven";

/**
 * Returns the most similar candidate for a mistyped word, the first of several: at most a third of its
 * letters, rounded up, may differ. Undefined if none is similar enough.
 */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  return closestMatch(word, [...candidates], { maxDistance: Math.ceil(word.length / 3) });
}

/** Returns a hint for a mistyped word: `did you mean explain?`; undefined if no candidate is similar. */
export function didYouMean(word: string, candidates: Iterable<string>): string | undefined {
  const near = nearest(word, candidates);
  return near === undefined ? undefined : `did you mean ${near}?`;
}

/** Adds a hint to a reason, if there is one. */
export function withHint(reason: string, hint: string | undefined): string {
  return hint === undefined ? reason : `${reason}: ${hint}`;
}

/** Sorts all candidates by similarity to the word, then alphabetically. */
export function byNearness(word: string, candidates: Iterable<string>): string[] {
  const distances = [...candidates].map((name) => ({ name, distance: leven(word, name) }));
  distances.sort((a, b) => a.distance - b.distance || (a.name < b.name ? -1 : 1));
  return distances.map(({ name }) => name);
}
