import type { EjectedEndpoint } from "../../model/ejected-endpoint.ts";

/** Maximum time until an ejected endpoint is probed again. Milliseconds. */
const LONGEST_PAUSE = 300_000;

interface Entry {
  readonly endpoint: EjectedEndpoint;
  /** Monotonic clock. */
  dueAt: number;
  pauseMs: number;
}

/**
 * The ejected endpoints of both families by `address . port`, and the time at which each is probed again,
 * after ever longer pauses. Times are monotonic.
 */
export class Ejections {
  readonly #entries = new Map<string, Entry>();

  /** All of them, in the order of ejection. */
  all(): EjectedEndpoint[] {
    return [...this.#entries.values()].map(({ endpoint }) => endpoint);
  }

  has(target: string): boolean {
    return this.#entries.has(target);
  }

  /** @param pauseMs time until it is probed for the first time */
  add(endpoint: EjectedEndpoint, now: number, pauseMs: number): void {
    this.#entries.set(endpoint.target, { endpoint, dueAt: now + pauseMs, pauseMs });
  }

  /** @returns the endpoint, undefined if it was not ejected */
  delete(target: string): EjectedEndpoint | undefined {
    const entry = this.#entries.get(target);
    this.#entries.delete(target);
    return entry?.endpoint;
  }

  /** The endpoints that are due to be probed, the longest overdue first. */
  due(now: number): EjectedEndpoint[] {
    const due = [...this.#entries.values()].filter(({ dueAt }) => dueAt <= now);
    return due.sort((a, b) => a.dueAt - b.dueAt).map(({ endpoint }) => endpoint);
  }

  /** Records that an endpoint still does not answer: the next pause is twice as long. */
  failedAgain(target: string, now: number): void {
    const entry = this.#entries.get(target);
    if (entry === undefined) return;
    entry.pauseMs = Math.min(2 * entry.pauseMs, LONGEST_PAUSE);
    entry.dueAt = now + entry.pauseMs;
  }
}
