import type { Clock } from "../base/clock.ts";
import { NamespaceTokens } from "../base/namespace-tokens.ts";
import type { ServiceName } from "../model/ids.ts";

/** Lines at once about the Services of one namespace, and how long until there may be one more, milliseconds. */
const LINES = { burst: 10, refillMs: 60_000 };

/** Lines of one kind in one sync, whatever namespaces there are. */
const MOST_OF_SYNC = 50;

/** The tokens of the lines that count the others: no namespace has this name. */
const OTHERS = "";

/** Chooses the Services of which a sync logs a line, so many of each namespace, and counts the others. */
export class ServiceLines {
  readonly #tokens: NamespaceTokens;
  /** Services that no line has told of, and no count. */
  #others = 0;

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#tokens = new NamespaceTokens(clock, LINES);
  }

  /**
   * Logs the Services of one sync.
   * @param line logs one of them
   * @param more logs how many others there were, since it was last called
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
      const isLogged =
        lines < MOST_OF_SYNC && this.#tokens.take(service.slice(0, service.indexOf("/"))) !== undefined;
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
