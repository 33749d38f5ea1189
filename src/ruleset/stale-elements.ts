/** How many stale elements are deleted at a time, so that nobody waits for them. */
export const MOST_DELETED = 4000;

/** Elements that nothing leads to any longer. They leave the table later, a few at a time. */
export class StaleElements {
  readonly #deletions = new Set<Iterator<unknown>>();

  get isAny(): boolean {
    return this.#deletions.size > 0;
  }

  /** @param deletion deletes an element in each step */
  add(deletion: Iterator<unknown>): void {
    this.#deletions.add(deletion);
  }

  /** @param most number of elements to delete, rounded up */
  delete(most: number): void {
    let room = most;
    for (const deletion of this.#deletions) {
      while (!deletion.next().done) if (--room <= 0) return;
      this.#deletions.delete(deletion);
    }
  }
}
