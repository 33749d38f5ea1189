import { vi } from "vitest";
import type { RunningCommand, RunResult } from "./lab/lab.ts";
import { PATIENCE } from "./patience.ts";

/** A line of the daemon's log. */
export interface LogLine {
  readonly level: string;
  readonly msg: string;
  readonly [field: string]: unknown;
}

/** A daemon process, which may have ended. */
export class RunningDaemon {
  readonly log: LogLine[] = [];
  /** Output lines that are not part of the log. */
  readonly otherLines: string[] = [];
  readonly ended: Promise<RunResult>;
  readonly #command: RunningCommand;
  #result: RunResult | undefined;

  constructor(command: RunningCommand) {
    this.#command = command;
    this.ended = command.ended.then((result) => {
      this.#result = result;
      return result;
    });
    command.onLine((line) => {
      if (line.startsWith("{")) this.log.push(JSON.parse(line));
      else this.otherLines.push(line);
    });
  }

  signal(signal: NodeJS.Signals): void {
    this.#command.kill(signal);
  }

  /** Stops it as the kubelet does. Resolves with its exit code. */
  async stop(): Promise<number | undefined> {
    this.signal("SIGTERM");
    return (await this.ended).exitCode;
  }

  /** Returns the log lines with this message. */
  said(message: string): readonly LogLine[] {
    return this.log.filter(({ msg }) => msg === message);
  }

  /** Waits until this message has been logged `times` times. @throws Error if the daemon ends before that */
  async saying(message: string, times = 1): Promise<LogLine> {
    const isSaid = () => this.said(message).length >= times;
    await vi
      .waitUntil(() => isSaid() || this.#result !== undefined, PATIENCE)
      .catch((error: unknown) => {
        throw new Error(this.#tail(`no ${times} times "${message}"`), { cause: error });
      });
    if (!isSaid())
      throw new Error(this.#tail(`ended with ${this.#result?.exitCode} before ${times} times "${message}"`));
    return this.said(message)[times - 1] as LogLine;
  }

  #tail(found: string): string {
    return [found, ...this.log.slice(-20).map((line) => JSON.stringify(line)), ...this.otherLines].join("\n");
  }
}
