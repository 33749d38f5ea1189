/** Values by name, each made when it is first asked for. Beyond a number of names, the others share one. */
export class ValuesByName<Name extends string, Value> implements Iterable<[Name, Value]> {
  readonly #most: number;
  readonly #make: () => Value;
  readonly #values = new Map<Name, Value>();
  #rest: Value | undefined;

  constructor(most: number, make: () => Value) {
    this.#most = most;
    this.#make = make;
  }

  /** The number of names with values of their own. */
  get size(): number {
    return this.#values.size;
  }

  /** What the names without values of their own share; undefined if there have been none. */
  get rest(): Value | undefined {
    return this.#rest;
  }

  /** @param name undefined for what has none */
  of(name: Name | undefined): Value {
    const known = name === undefined ? this.#rest : this.#values.get(name);
    if (known !== undefined) return known;
    if (name === undefined || this.#values.size >= this.#most) {
      this.#rest ??= this.#make();
      return this.#rest;
    }
    const value = this.#make();
    this.#values.set(name, value);
    return value;
  }

  [Symbol.iterator](): IterableIterator<[Name, Value]> {
    return this.#values.entries();
  }
}
