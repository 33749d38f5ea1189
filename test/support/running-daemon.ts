import { expect, vi } from "vitest";
import type { RunningCommand, RunResult } from "./lab/lab.ts";
import { PATIENCE } from "./patience.ts";

/** A line of the daemon's log. */
export interface LogLine {
  readonly level: string;
  readonly msg: string;
  readonly [field: string]: unknown;
}

/** A daemon that runs, or has ended. */
export class RunningDaemon {
  readonly log: LogLine[] = [];
  /** Lines that are not the log's. */
  readonly otherLines: string[] = [];
  readonly ended: Promise<RunResult>;
  readonly #command: RunningCommand;

  constructor(command: RunningCommand) {
    this.#command = command;
    this.ended = command.ended;
    command.onLine((line) => {
      if (line.startsWith("{")) this.log.push(JSON.parse(line));
      else this.otherLines.push(line);
    });
  }

  signal(signal: NodeJS.Signals): void {
    this.#command.kill(signal);
  }

  /** Ends it as a kubelet does; resolves with its exit code. */
  async stop(): Promise<number | undefined> {
    this.signal("SIGTERM");
    return (await this.ended).exitCode;
  }

  /** The log lines with this message. */
  said(message: string): readonly LogLine[] {
    return this.log.filter(({ msg }) => msg === message);
  }

  /** Waits until this message has been logged `times` times. */
  async saying(message: string, times = 1): Promise<LogLine> {
    await vi.waitFor(() => expect(this.said(message).length).toBeGreaterThanOrEqual(times), PATIENCE);
    return this.said(message)[times - 1] as LogLine;
  }
}
