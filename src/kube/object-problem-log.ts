import type { Clock } from "../base/clock.ts";
import type { LogFields, Logger } from "../base/logger.ts";
import { NamespaceTokens } from "../base/namespace-tokens.ts";

/** Lines at once about the objects of one namespace, and how long until there may be one more, milliseconds. */
const LINES = { burst: 20, refillMs: 60_000 };

/** So many objects with problems are remembered; of those beyond it, a problem may be logged again. */
const MOST_KNOWN = 1000;

/** Logs what is wrong with objects: each problem once until it changes or ends, however often the object is updated. */
export class ObjectProblemLog {
  readonly #logger: Logger;
  readonly #message: string;
  readonly #lines: NamespaceTokens;
  /** The problem of each object. */
  readonly #known = new Map<string, string>();

  /** @param message of every line */
  constructor(clock: Pick<Clock, "monotonic">, logger: Logger, message: string) {
    this.#logger = logger;
    this.#message = message;
    this.#lines = new NamespaceTokens(clock, LINES);
  }

  /**
   * An object has a problem.
   * @param object `Service namespace/name`
   * @param fields of the line
   */
  add(object: string, problem: string, fields: LogFields): void {
    const isKnown = this.#known.get(object) === problem;
    this.#known.delete(object);
    this.#known.set(object, problem);
    const [oldest] = this.#known.keys();
    if (this.#known.size > MOST_KNOWN && oldest !== undefined) this.#known.delete(oldest);
    if (isKnown) return;
    const left = this.#lines.take(namespaceOf(object));
    const hint = left === 0 ? { hint: "further ones in this namespace are not logged for a minute" } : {};
    if (left !== undefined) this.#logger.warn({ ...fields, ...hint }, this.#message);
  }

  /** An object has no problem any more. @param object as for {@link ObjectProblemLog.add} */
  end(object: string): void {
    this.#known.delete(object);
  }
}

function namespaceOf(object: string): string {
  return object.slice(object.indexOf(" ") + 1, Math.max(object.indexOf("/"), 0));
}
