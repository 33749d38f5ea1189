import type { ElementSet, SetSpec } from "./ast/ruleset.ts";
import { type Element, elementsOf } from "./elements.ts";

/** The elements of one set or map to delete, as they are, and to add. A changed value is in both. */
export interface SetDelta {
  readonly spec: SetSpec;
  readonly deleted: readonly Element[];
  readonly added: readonly Element[];
}

/**
 * Compares the listed elements of a set or map with the desired ones, one by one, keeping only differences.
 * The desired set may change meanwhile: changed elements are compared with either value.
 */
export class SetComparison {
  readonly #desired: ElementSet;
  readonly #missing = new Set<string>();
  readonly #added: Element[] = [];
  readonly #unwanted = new Map<string, string>();

  constructor(desired: ElementSet) {
    this.#desired = desired;
  }

  /** The expected keys that were not listed yet. */
  get missing(): ReadonlySet<string> {
    return this.#missing;
  }

  /** Expects a desired key. Called for each of them before the first is listed. */
  expect(key: string): void {
    this.#missing.add(key);
  }

  /** Compares a listed element. */
  listed(key: string, value: string): void {
    const wanted = this.#desired.elements.get(key);
    this.#missing.delete(key);
    if (wanted === value) return;
    // Elements that change during the listing may be listed twice.
    if (this.#unwanted.has(key)) return;
    this.#unwanted.set(key, value);
    if (wanted !== undefined) this.#added.push({ key, value: wanted });
  }

  /**
   * The changes that bring the set to the desired state, after all elements were listed; none if it has that
   * state. Sorted by key, as the kernel's order changes between readings.
   */
  result(): SetDelta[] {
    for (const key of this.#missing) {
      const value = this.#desired.elements.get(key);
      if (value !== undefined) this.#added.push({ key, value });
    }
    const byKey = (a: Element, b: Element) => (a.key < b.key ? -1 : 1);
    const deleted = elementsOf(this.#unwanted).toSorted(byKey);
    const added = this.#added.sort(byKey);
    const isSame = deleted.length + added.length === 0;
    return isSame ? [] : [{ spec: this.#desired.spec, deleted, added }];
  }
}
