import type { ElementSet, SetSpec } from "./ast/ruleset.ts";
import type { Element } from "./elements.ts";

/** The elements of one set or map that have to go and to come. A changed value is in both. */
export interface SetDelta {
  readonly spec: SetSpec;
  readonly deleted: readonly string[];
  readonly added: readonly Element[];
}

/**
 * Compares the elements of a set or map with the desired ones, one after the other as they are listed: nothing of those
 * that are right is kept. The desired set may change meanwhile; elements that change are compared with the value of
 * either moment.
 */
export class SetComparison {
  readonly #desired: ElementSet;
  /** The keys that were expected and have not been listed yet. */
  readonly #missing = new Set<string>();
  readonly #added: Element[] = [];
  readonly #unwanted = new Map<string, string>();

  constructor(desired: ElementSet) {
    this.#desired = desired;
  }

  /** The set's name. */
  get name(): string {
    return this.#desired.spec.name;
  }

  /** Expects a desired key. To be called with each of them, before the first is listed. */
  expect(key: string): void {
    this.#missing.add(key);
  }

  /** Compares an element that is there. */
  listed(key: string, value: string): void {
    const wanted = this.#desired.elements.get(key);
    this.#missing.delete(key);
    if (wanted === value) return;
    // Elements that come or go while the set is read may be listed twice.
    if (this.#unwanted.has(key)) return;
    this.#unwanted.set(key, value);
    if (wanted !== undefined) this.#added.push({ key, value: wanted });
  }

  /** The elements that are there and should not be, or have another value. */
  get unwanted(): readonly Element[] {
    return Array.from(this.#unwanted, ([key, value]) => ({ key, value }));
  }

  /**
   * The changes that make the set as it should be, once all of its elements were listed; none when it is. They are sorted by their
   * keys, as the kernel's order changes from one reading to the next.
   */
  result(): SetDelta[] {
    for (const key of this.#missing) {
      const value = this.#desired.elements.get(key);
      if (value !== undefined) this.#added.push({ key, value });
    }
    const deleted = [...this.#unwanted.keys()].sort();
    const added = this.#added.sort((a, b) => (a.key < b.key ? -1 : 1));
    const isSame = deleted.length + added.length === 0;
    return isSame ? [] : [{ spec: this.#desired.spec, deleted, added }];
  }
}
