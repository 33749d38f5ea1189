import type { Clock } from "../base/clock.ts";
import { NamespaceTokens } from "../base/namespace-tokens.ts";
import { namespaceOf, type ServiceName } from "../model/ids.ts";

/** Rate of lines about Services of one namespace: a burst, and the time until one more is allowed. */
const LINES = { burst: 10, refillMs: 60_000 };

/** Maximum number of lines of one kind in one sync, for all namespaces. */
const MOST_OF_SYNC = 50;

/** Key of the tokens for lines that count other Services. No namespace has this name. */
const OTHERS = "";

/** Limits the lines that a sync logs about Services, for each namespace, and counts the other Services. */
export class ServiceLines {
  readonly #tokens: NamespaceTokens;
  /** Number of Services that are in no line and no logged count. */
  #others = 0;

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#tokens = new NamespaceTokens(clock, LINES);
  }

  /**
   * Logs the Services of one sync.
   * @param line logs one of them
   * @param more logs the number of other Services since its last call
   */
  log<T>(
    items: Iterable<T>,
    serviceOf: (item: T) => ServiceName,
    line: (item: T) => void,
    more: (count: number) => void,
  ): void {
    let lines = 0;
    for (const item of items) {
      const service = serviceOf(item);
      const isLogged = lines < MOST_OF_SYNC && this.#tokens.take(namespaceOf(service)) !== undefined;
      if (isLogged) {
        lines++;
        line(item);
      } else this.#others++;
    }
    if (this.#others === 0 || this.#tokens.take(OTHERS) === undefined) return;
    more(this.#others);
    this.#others = 0;
  }
}
