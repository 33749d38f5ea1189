import type { Clock } from "./clock.ts";
import type { LogFields, Logger } from "./logger.ts";
import { NamespaceTokens } from "./namespace-tokens.ts";

/** Lines of one namespace: the number at once, and the time until one more is allowed. */
const LINES = { burst: 20, refillMs: 60_000 };

type LimitedLevel = "info" | "warn" | "error";

/**
 * Limits the lines of each level about the objects of each namespace, where their number depends on what
 * happens to these. The others are logged for debugging, and the next line gives their number.
 */
export class NamespaceLoggers {
  readonly #logger: Logger;
  readonly #tokens: Readonly<Record<LimitedLevel, NamespaceTokens>>;

  constructor(clock: Pick<Clock, "monotonic">, logger: Logger) {
    this.#logger = logger;
    const tokens = () => new NamespaceTokens(clock, LINES);
    this.#tokens = { info: tokens(), warn: tokens(), error: tokens() };
  }

  /** The logger for lines about an object of a namespace; "" for lines about the node. */
  of(namespace: string): Logger {
    const at = (level: LimitedLevel) => (fields: LogFields, message: string) =>
      this.line(level, namespace, () => [fields, message]);
    const debug = (fields: LogFields, message: string) => this.#logger.debug(fields, message);
    const isLevelEnabled = () => this.#logger.isLevelEnabled("debug");
    return { debug, info: at("info"), warn: at("warn"), error: at("error"), isLevelEnabled };
  }

  /** Logs a line about an object of a namespace. @param make called only if the line is written */
  line(level: LimitedLevel, namespace: string, make: () => readonly [LogFields, string]): void {
    const taken = this.#tokens[level].take(namespace);
    if (taken !== undefined) {
      const [fields, message] = make();
      this.#logger[level]({ ...fields, ...limitFields(taken) }, message);
    } else if (this.#logger.isLevelEnabled("debug")) this.#logger.debug(...make());
  }
}

function limitFields({ left, missed }: { readonly left: number; readonly missed: number }): LogFields {
  return { ...(missed > 0 && { linesLeftOut: missed }), ...(left === 0 && { limit: MORE }) };
}

const MORE = "further lines of this kind are only logged for debugging for a minute";
