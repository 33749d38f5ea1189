/** Time after which long work lets the event loop do other work, milliseconds. */
export const TURN = 10;

/** Small parts of work, such as a lookup each, that take less than a millisecond together. */
const PARTS = 1000;

/**
 * Divides work into pieces, for a generator that yields after each.
 * @returns a function that counts parts, and tells whether a piece is complete
 */
export function pieceMeter(): (parts: number) => boolean {
  let done = 0;
  return (parts) => {
    done += parts;
    if (done < PARTS) return false;
    done = 0;
    return true;
  };
}

/** Number of items that are sorted in one piece. */
const RUN = 4000;

/** Sorts in steps. Equal items keep their order. @param items may be sorted in place */
export function* sorting<T>(items: T[], compare: (a: T, b: T) => number): Generator<undefined, T[]> {
  if (items.length <= RUN) return items.sort(compare);
  let runs: T[][] = [];
  for (let start = 0; start < items.length; start += RUN) {
    runs.push(items.slice(start, start + RUN).sort(compare));
    yield;
  }
  while (runs.length > 1) {
    const longer: T[][] = [];
    for (let index = 0; index < runs.length; index += 2)
      longer.push(yield* merging(runs[index] ?? [], runs[index + 1] ?? [], compare));
    runs = longer;
  }
  return runs[0] ?? [];
}

/** Merges two sorted lists, in steps. */
function* merging<T>(
  first: readonly T[],
  second: readonly T[],
  compare: (a: T, b: T) => number,
): Generator<undefined, T[]> {
  const [last, next] = [first.at(-1), second[0]];
  // Most lists come almost sorted.
  if (last === undefined || next === undefined || compare(last, next) <= 0) return first.concat(second);
  const isPieceDone = pieceMeter();
  const merged: T[] = [];
  let taken = 0;
  for (const item of first) {
    for (let other = second[taken]; other !== undefined && compare(other, item) < 0; other = second[taken]) {
      merged.push(other);
      taken++;
      if (isPieceDone(1)) yield;
    }
    merged.push(item);
    if (isPieceDone(1)) yield;
  }
  return merged.concat(second.slice(taken));
}

/** Does all pieces of work without yielding. @returns the result */
export function resultOf<Result>(pieces: Generator<undefined, Result>): Result {
  while (true) {
    const { done, value } = pieces.next();
    if (done) return value;
  }
}
