import type { Clock } from "../base/clock.ts";
import { setNewest } from "../base/group-by.ts";
import type { LogFields, Logger } from "../base/logger.ts";
import { NamespaceLoggers } from "../base/namespace-loggers.ts";

/** Maximum number of remembered objects. A problem of an older one may be logged again. */
const MOST_KNOWN = 1000;

/** Logs problems of objects: each one once until it changes or ends, however often the object is updated. */
export class ObjectProblemLog {
  readonly #loggers: NamespaceLoggers;
  readonly #message: string;
  /** The problem of each object. */
  readonly #known = new Map<string, string>();

  /** @param message of every line */
  constructor(clock: Pick<Clock, "monotonic">, logger: Logger, message: string) {
    this.#loggers = new NamespaceLoggers(clock, logger);
    this.#message = message;
  }

  /**
   * Records a problem of an object, and logs it if it is new.
   * @param object `Service namespace/name`
   * @param fields of the line
   */
  add(object: string, problem: string, fields: LogFields): void {
    const isKnown = this.#known.get(object) === problem;
    setNewest(this.#known, object, problem, MOST_KNOWN);
    if (!isKnown) this.#loggers.of(namespaceOf(object)).warn(fields, this.#message);
  }

  /** Deletes the problem of an object. @param object as for {@link ObjectProblemLog.add} */
  end(object: string): void {
    this.#known.delete(object);
  }
}

function namespaceOf(object: string): string {
  return object.slice(object.indexOf(" ") + 1, Math.max(object.indexOf("/"), 0));
}
