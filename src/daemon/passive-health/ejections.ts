import type { Family } from "../../base/family.ts";
import type { EjectedEndpoint } from "../../model/passive-health.ts";

/** Longest time until an ejected endpoint is asked again, milliseconds. */
const LONGEST_PAUSE = 300_000;

interface Entry {
  readonly endpoint: EjectedEndpoint;
  /** Monotonic clock. */
  dueAt: number;
  pauseMs: number;
}

/** The ejected endpoints, and when each is asked again: after ever longer pauses. Times are monotonic. */
export class Ejections {
  readonly #entries = new Map<string, Entry>();

  /** Those of both families, in the order of ejection. */
  all(): EjectedEndpoint[] {
    return [...this.#entries.values()].map(({ endpoint }) => endpoint);
  }

  has(family: Family, target: string): boolean {
    return this.#entries.has(keyOf(family, target));
  }

  /** @param pauseMs until it is asked for the first time */
  add(endpoint: EjectedEndpoint, now: number, pauseMs: number): void {
    this.#entries.set(keyOf(endpoint.family, endpoint.target), { endpoint, dueAt: now + pauseMs, pauseMs });
  }

  /** @returns the endpoint, undefined if it was not ejected */
  delete(family: Family, target: string): EjectedEndpoint | undefined {
    const key = keyOf(family, target);
    const entry = this.#entries.get(key);
    this.#entries.delete(key);
    return entry?.endpoint;
  }

  /** Those that are to be asked, the longest due first. */
  due(now: number): EjectedEndpoint[] {
    const due = [...this.#entries.values()].filter(({ dueAt }) => dueAt <= now);
    return due.sort((a, b) => a.dueAt - b.dueAt).map(({ endpoint }) => endpoint);
  }

  /** Records that an endpoint still does not answer: the next pause is twice as long. */
  failedAgain(family: Family, target: string, now: number): void {
    const entry = this.#entries.get(keyOf(family, target));
    if (entry === undefined) return;
    entry.pauseMs = Math.min(2 * entry.pauseMs, LONGEST_PAUSE);
    entry.dueAt = now + entry.pauseMs;
  }
}

function keyOf(family: Family, target: string): string {
  return `${family} ${target}`;
}
