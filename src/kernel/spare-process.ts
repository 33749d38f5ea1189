import type { Clock, Timer } from "../base/clock.ts";
import { type ProcessLimits, type RunProcess, runProcess, type StartedProcess, startProcess } from "./process.ts";

/** A spare that has waited for so long, milliseconds, is replaced: the program may have been upgraded on disk. */
const MAX_AGE = 60_000;

/** What a {@link SpareProcess} is made of. */
export interface SpareProcessParts {
  readonly path: string;
  readonly args: readonly string[];
  readonly limits: ProcessLimits;
  readonly clock: Clock;
}

/**
 * Runs one command by a process that was started in advance and waits for its input, so that starting it delays nothing.
 * For programs that do nothing before the end of their input, and nothing for an empty one: so it ends when the spare is
 * not needed any more, and when this process is killed. nft is one (test/kernel/spare-nft.test.ts).
 *
 * The first run, and one whose spare has ended, starts a process as it is asked for. The next spare is started after each
 * success; a command that fails gets none until it succeeds.
 */
export class SpareProcess {
  readonly #parts: SpareProcessParts;
  #spare: StartedProcess | undefined;
  #age: Timer | undefined;
  #stopped = false;

  constructor(parts: SpareProcessParts) {
    this.#parts = parts;
  }

  /** {@link RunProcess}: other commands than that of the spare are run as they are. */
  readonly run: RunProcess = async (path, args, input, limits) => {
    if (path !== this.#parts.path || args.join("\0") !== this.#parts.args.join("\0")) {
      return await runProcess(path, args, input, limits);
    }
    const spare = this.#take();
    const result = spare === undefined ? await runProcess(path, args, input, limits) : await spare.finish(input);
    if (result.exitCode === 0) this.#startLater();
    return result;
  };

  /** Ends the spare; there will be no other. */
  stop(): void {
    this.#stopped = true;
    this.#take()?.kill();
  }

  /** The spare, if it still waits. */
  #take(): StartedProcess | undefined {
    this.#age?.cancel();
    const spare = this.#spare;
    this.#spare = undefined;
    return spare?.hasEnded === true ? undefined : spare;
  }

  /** After everything that the result is waited for: starting a process holds up the event loop for a millisecond. */
  #startLater(): void {
    this.#age?.cancel();
    this.#age = this.#parts.clock.after(0, () => this.#start());
  }

  #start(): void {
    this.#take()?.kill();
    if (this.#stopped) return;
    const { path, args, limits, clock } = this.#parts;
    this.#spare = startProcess(path, args, limits);
    this.#age = clock.after(MAX_AGE, () => this.#start());
  }
}
