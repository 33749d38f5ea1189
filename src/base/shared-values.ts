/** Maximum number of different values: more than a large cluster has nodes, zones or sizes of Services. */
const MOST_VALUES = 20_000;

/**
 * Maximum length of a key. A longer one identifies a value that hardly any other object has, such as 10,000
 * ports, and every version of that object would stay in memory.
 */
const LONGEST_KEY = 4000;

/** Maximum length of all keys together, enough for 20,000 values. Values take about as much memory. */
const MOST_CHARACTERS = 4_000_000;

/**
 * Keeps one copy of equal values: hundreds of thousands of endpoints name a few thousand nodes, and every
 * copy takes memory. Starts over beyond 20,000 different values, or 4 MB of keys.
 */
export class SharedValues<T> {
  readonly #values = new Map<string, T>();
  #characters = 0;

  /** Returns the first value that was given with this key. The key identifies equal values. */
  share(key: string, value: T): T {
    const known = this.#values.get(key);
    if (known !== undefined) return known;
    if (key.length > LONGEST_KEY) return value;
    if (this.#values.size >= MOST_VALUES || this.#characters + key.length > MOST_CHARACTERS) {
      this.#values.clear();
      this.#characters = 0;
    }
    this.#values.set(key, value);
    this.#characters += key.length;
    return value;
  }
}

/**
 * Returns a copy of a list without spare capacity. A list made by `push`, `flatMap` or with a spread has room
 * for up to 16 more items, 8 bytes each (V8); for the lists of 40,000 Services that is 20 MB.
 */
export function exactList<T>(list: readonly T[]): readonly T[] {
  return list.slice();
}
