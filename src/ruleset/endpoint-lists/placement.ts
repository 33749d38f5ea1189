/**
 * Assigns the values of a list to the indexes 0 to N-1 so that as few indexes as possible change: a value that had an
 * index below N keeps it; the others take the free indexes.
 * @param previous the value at each index before; anything, also values that are not in the list or there twice
 * @param values N different values
 * @returns `values` itself when that is the result
 */
export function placed(previous: readonly string[], values: readonly string[]): readonly string[] {
  if (previous === values || previous.length === 0) return values;
  const waiting = new Set(values);
  const result = new Array<string | undefined>(values.length);
  for (const [index, value] of previous.slice(0, values.length).entries()) {
    if (waiting.delete(value)) result[index] = value;
  }
  fill(result, waiting);
  const placement = result as string[];
  return placement.every((value, index) => value === values[index]) ? values : placement;
}

/** Puts the values into the free indexes, of which there are as many. */
function fill(result: (string | undefined)[], values: ReadonlySet<string>): void {
  let index = 0;
  for (const value of values) {
    while (result[index] !== undefined) index += 1;
    result[index] = value;
  }
}
