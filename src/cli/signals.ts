import { constants } from "node:os";
import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";

/** The reason for which a long-running command ends. */
export interface End {
  readonly reason: string;
  /** Whether it ends because of an error. */
  readonly failed: boolean;
}

/** The end of a long-running command. */
export interface Ended {
  readonly promise: Promise<End>;
  /** Ends it for another reason than a signal. */
  readonly end: (reason: string) => void;
  /** Keeps the process alive no longer. */
  readonly release: () => void;
}

/** The daemon's timers do not keep the process alive (unref); this one does. */
const KEEP_ALIVE_PERIOD = 2 ** 30;

/** The exit code of a process that a signal ended, less the signal's number, as shells count. */
const KILLED = 128;

/**
 * Listens to SIGTERM and SIGINT, which end, and SIGUSR1. A second SIGTERM or SIGINT ends the process at once.
 * @param dump what SIGUSR1 does
 */
export function onSignals(dump: () => void, logger: Logger): Ended {
  let end: (reason: string, failed?: boolean) => void = () => {};
  let isEnding = false;
  const promise = new Promise<End>((resolve) => {
    end = (reason, failed = false) => resolve({ reason, failed });
  });
  const keepAlive = setInterval(() => {}, KEEP_ALIVE_PERIOD);
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    // Process 1 of a container does not end by a signal that nobody listens to: the second one is listened to as well.
    process.on(signal, () => {
      if (isEnding) process.exit(KILLED + constants.signals[signal]);
      isEnding = true;
      end(signal);
    });
  }
  process.on("SIGUSR1", dump);
  process.on("unhandledRejection", (error) => logger.error({ error: messageOf(error) }, "internal error"));
  process.on("uncaughtException", (error) => {
    logger.error({ error: messageOf(error) }, "internal error");
    end("internal error", true);
  });
  return { promise, end, release: () => clearInterval(keepAlive) };
}

/** Resolves with the first SIGINT, SIGTERM or SIGHUP; from then on they are ignored, so that a command can clean up. */
export function untilInterrupted(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => resolve());
  });
}
