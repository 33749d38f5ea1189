import type { Clock, Timer } from "../base/clock.ts";
import {
  type ProcessResult,
  type RunProcess,
  runProcess,
  type StartedProcess,
  startProcess,
} from "./process.ts";

/** A spare that has waited for so long, milliseconds, is replaced: the program may have been upgraded on disk. */
const MAX_AGE = 60_000;

/**
 * From one input to the start of the next spare, milliseconds: by then nft has most often committed what it was given,
 * and is not slowed down. It ends later: when it deleted something, closing its netlink socket waits for the kernel's next
 * RCU grace period, 10 to 30 ms (nft_rcv_nl_event in net/netfilter/nf_tables_api.c), and a change may come meanwhile.
 */
const START_DELAY = 3;

/**
 * Runs one command by a process that was started in advance and waits for its input, so that starting it delays nothing.
 * For programs that do nothing before the end of their input, and nothing for an empty one: so it ends when the spare is
 * not needed any more, and when this process is killed. nft is one (test/kernel/spare-nft.test.ts).
 *
 * The first run, and one whose spare has ended, starts a process as it is asked for: also when it turns out only then
 * that the spare was killed, as when memory runs out. The next spare is started while a run is under way.
 */
export class SpareProcess {
  readonly #path: string;
  readonly #args: readonly string[];
  readonly #maxOutputBytes: number;
  readonly #clock: Clock;
  #spare: StartedProcess | undefined;
  /** For the start of the next spare, or the replacement of the one that waits. */
  #timer: Timer | undefined;
  #stopped = false;

  constructor(path: string, args: readonly string[], maxOutputBytes: number, clock: Clock) {
    this.#path = path;
    this.#args = args;
    this.#maxOutputBytes = maxOutputBytes;
    this.#clock = clock;
  }

  /** {@link RunProcess}: other commands than that of the spare are run as they are. */
  readonly run: RunProcess = async (path, args, input, limits) => {
    if (path !== this.#path || args.join("\0") !== this.#args.join("\0")) {
      return await runProcess(path, args, input, limits);
    }
    const spare = this.#take();
    const anew = () => runProcess(path, args, input, limits);
    if (spare?.pid !== undefined) limits.onStart?.(spare.pid);
    const finished = spare === undefined ? anew() : finish(spare, input, limits.timeoutMs, anew);
    this.#timer = this.#clock.after(START_DELAY, () => this.#start());
    return await finished;
  };

  /** Ends the spare; there will be no other. */
  stop(): void {
    this.#stopped = true;
    this.#take()?.kill();
  }

  /** The spare, if it still waits. */
  #take(): StartedProcess | undefined {
    this.#timer?.cancel();
    const spare = this.#spare;
    this.#spare = undefined;
    return spare?.hasEnded === true ? undefined : spare;
  }

  #start(): void {
    this.#take()?.kill();
    if (this.#stopped) return;
    this.#spare = startProcess(this.#path, this.#args, this.#maxOutputBytes);
    this.#timer = this.#clock.after(MAX_AGE, () => this.#start());
  }
}

/**
 * Gives a spare its input, or another process if the spare ended before it had all of it: then it did nothing, and
 * nothing is done twice. One that was killed later may have done its work.
 */
async function finish(
  spare: StartedProcess,
  input: string,
  timeoutMs: number,
  anew: () => Promise<ProcessResult>,
): Promise<ProcessResult> {
  const result = await spare.finish(input, timeoutMs);
  return spare.lacksInput && !result.timedOut && !result.tooMuchOutput ? await anew() : result;
}
