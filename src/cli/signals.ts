import type { Logger } from "../base/logger.ts";

/** The end of a long-running command. */
export interface Ended {
  /** Resolves with the reason. */
  readonly promise: Promise<string>;
  /** Ends it for another reason than a signal. */
  readonly end: (reason: string) => void;
}

/** What signals do. */
export interface SignalParts {
  /** On SIGUSR1. */
  readonly dump: () => void;
  readonly logger: Logger;
}

/** Node's timers that matter are not counted as work to do; this one keeps the process. */
const KEEP_ALIVE_PERIOD = 2 ** 30;

/** Listens to SIGTERM and SIGINT, which end, and SIGUSR1. A second SIGTERM ends the process at once. */
export function onSignals({ dump, logger }: SignalParts): Ended {
  let end: (reason: string) => void = () => {};
  const promise = new Promise<string>((resolve) => {
    const keepAlive = setInterval(() => {}, KEEP_ALIVE_PERIOD);
    end = (reason) => {
      clearInterval(keepAlive);
      resolve(reason);
    };
  });
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => end(signal));
  process.on("SIGUSR1", dump);
  // A log that nobody reads any more (a closed pipe) is no reason to end.
  process.stderr.on("error", () => {});
  process.on("unhandledRejection", (error) => {
    logger.error({ error: error instanceof Error ? error.message : String(error) }, "internal error");
  });
  return { promise, end };
}
