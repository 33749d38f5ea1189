import { constants } from "node:os";
import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";

/** Period of the timer that keeps the process alive, milliseconds: the daemon's own timers do not (unref). */
const KEEP_ALIVE_PERIOD = 2 ** 30;

/** The exit code of a process that a signal ended is this plus the signal's number, as in shells. */
const KILLED = 128;

/**
 * Handles SIGTERM and SIGINT, which end the command; the second one ends the process immediately.
 * @param handlers for signals that do not end it
 * @returns a promise of why the command ends and whether it failed, and a function that lets the process end
 */
export function onSignals(handlers: Readonly<Record<"SIGHUP" | "SIGUSR1", () => void>>, logger: Logger) {
  let isEnding = false;
  const keepAlive = setInterval(() => {}, KEEP_ALIVE_PERIOD);
  for (const [signal, handle] of Object.entries(handlers)) process.on(signal, handle);
  process.on("unhandledRejection", (error) => logger.error({ error: messageOf(error) }, "internal error"));
  const promise = new Promise<{ readonly reason: string; readonly failed: boolean }>((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      // The kernel ignores a signal that process 1 of a container does not handle, so the second one needs a
      // handler, too.
      process.on(signal, () => {
        if (isEnding) process.exit(KILLED + constants.signals[signal]);
        isEnding = true;
        resolve({ reason: signal, failed: false });
      });
    }
    process.on("uncaughtException", (error) => {
      logger.error({ error: messageOf(error) }, "internal error");
      resolve({ reason: "internal error", failed: true });
    });
  });
  return { promise, release: () => clearInterval(keepAlive) };
}

/**
 * Resolves with the first SIGINT, SIGTERM or SIGHUP. Later ones are ignored, so that a command can clean up.
 */
export function untilInterrupted(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => resolve());
  });
}
