/**
 * Ends the waits of all reflectors of one API server when one of them gets an answer. After an outage, the first
 * successful attempt thus resumes every resource at once.
 */
export class Availability {
  readonly #callbacks = new Set<() => void>();

  /** Calls `callback` at the next answer. Returns a function that cancels this. */
  onAnswer(callback: () => void): () => void {
    this.#callbacks.add(callback);
    return () => this.#callbacks.delete(callback);
  }

  /** To be called for each answer of the API server, successful or not. */
  answered(): void {
    const callbacks = [...this.#callbacks];
    this.#callbacks.clear();
    for (const callback of callbacks) callback();
  }
}
