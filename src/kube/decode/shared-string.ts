/** More distinct strings than a large cluster has nodes and zones; beyond it, the pool starts over. */
const MOST_STRINGS = 20_000;

const pool = new Map<string, string>();

/**
 * Returns the same copy of equal strings. Hundreds of thousands of endpoints name a few thousand nodes and zones, and
 * JSON.parse makes a string of its own for each (V8: of more than 10 characters).
 */
export function sharedString(text: string): string {
  const known = pool.get(text);
  if (known !== undefined) return known;
  if (pool.size >= MOST_STRINGS) pool.clear();
  pool.set(text, text);
  return text;
}
