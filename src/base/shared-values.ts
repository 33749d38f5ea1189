/** More different values than a large cluster has nodes, zones or sizes of Services. */
const MOST_VALUES = 20_000;

/**
 * Keeps one copy of equal values: hundreds of thousands of endpoints name a few thousand nodes, and every copy takes
 * memory. Beyond 20,000 different values it starts over.
 */
export class SharedValues<T> {
  readonly #values = new Map<string, T>();

  /** Returns the value that was first given with this key, by which equal values are known. */
  share(key: string, value: T): T {
    const known = this.#values.get(key);
    if (known !== undefined) return known;
    if (this.#values.size >= MOST_VALUES) this.#values.clear();
    this.#values.set(key, value);
    return value;
  }
}
