/** Maximum number of array items that become text at once. */
const BATCH = 100;

/**
 * Yields the text of `JSON.stringify(value)` in pieces, so that a large value neither blocks the event loop
 * nor is in memory twice. Iterables other than arrays become arrays, too.
 * @param value plain data, which must not change until the last piece is taken
 */
export function* jsonPieces(value: unknown): Generator<string> {
  if (!isLarge(value)) yield JSON.stringify(value);
  else if (isIterable(value)) yield* itemPieces(value);
  else yield* fieldPieces(value);
}

/** Whether a value is or contains an array of more than {@link BATCH} items, or another iterable. */
function isLarge(value: unknown): value is object {
  if (typeof value !== "object" || value === null) return false;
  if (Array.isArray(value)) return value.length > BATCH || value.some(isLarge);
  return isIterable(value) || Object.values(value).some(isLarge);
}

function isIterable(value: object): value is Iterable<unknown> {
  return Symbol.iterator in value;
}

function* fieldPieces(value: object): Generator<string> {
  let before = "{";
  for (const [name, field] of Object.entries(value)) {
    if (field === undefined) continue;
    yield `${before}${JSON.stringify(name)}:`;
    yield* jsonPieces(field);
    before = ",";
  }
  yield "}";
}

function* itemPieces(items: Iterable<unknown>): Generator<string> {
  let before = "";
  let batch: unknown[] = [];
  const batchText = (): string => {
    const text = before + JSON.stringify(batch).slice(1, -1);
    [before, batch] = [",", []];
    return text;
  };
  yield "[";
  for (const item of items) {
    const isOwnPiece = isLarge(item);
    if (batch.length === BATCH || (isOwnPiece && batch.length > 0)) yield batchText();
    if (!isOwnPiece) {
      batch.push(item);
      continue;
    }
    yield before;
    yield* jsonPieces(item);
    before = ",";
  }
  if (batch.length > 0) yield batchText();
  yield "]";
}
