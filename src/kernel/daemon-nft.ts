import type { Clock, Timer } from "../base/clock.ts";
import type { Logger } from "../base/logger.ts";
import { APPLY, type Nft, nftProgram } from "./nft.ts";
import { DAEMON_LIMITS, limitedRun } from "./nft-limits.ts";
import { OwnCommits } from "./own-commits.ts";
import { type RunProcess, runProcess, type StartedProcess, startProcess } from "./process.ts";

/** nft for a process that applies transactions continuously. */
export type DaemonNft = ReturnType<typeof daemonNft>;

/**
 * Creates an nft that keeps a process ready for the next transaction and limits memory.
 * @param memoryBytes limit for a large transaction or listing, see {@link nftMemoryLimit}; undefined for none
 */
export function daemonNft(path: string, clock: Clock, memoryBytes: number | undefined) {
  const ownCommits = new OwnCommits(clock);
  const spare = spareProcess(path, APPLY, DAEMON_LIMITS.maxOutputBytes, clock);
  const nft: Nft = nftProgram({
    path,
    limits: DAEMON_LIMITS,
    run: limitedRun(memoryBytes, spare.run),
    onApply: (pid) => ownCommits.started(pid),
  });
  return {
    nft,
    ownCommits,
    /** Ends the processes that wait for later calls. Call nothing after this. */
    close: () => spare.stop(),
  };
}

/** Creates an nft that reads the kernel and changes nothing: transactions are only logged. */
export function dryRunNft(nft: Nft, logger: Logger): Nft {
  return {
    path: nft.path,
    commits: 0,
    async apply(transaction) {
      const bytes = JSON.stringify(transaction).length;
      logger.info({ bytes, commands: transaction.nftables.length }, "dry run: would apply");
      logger.debug({ transaction }, "dry run: the transaction");
      return { bytes, durationMs: 0 };
    },
    check: (transaction) => nft.check(transaction),
    list: (args, signal) => nft.list(args, signal),
    stopReading: () => nft.stopReading(),
  };
}

/** Maximum age of a waiting spare, milliseconds: the program may have been upgraded on disk. */
const MAX_AGE = 60_000;

/**
 * Delay from an input to the start of the next spare, milliseconds. By then nft has usually committed, so
 * that the start does not slow it down. nft ends later if it deleted something: closing its socket waits for
 * an RCU grace period of the kernel, 10 to 30 ms (nft_rcv_nl_event in net/netfilter/nf_tables_api.c), and
 * another change may arrive meanwhile.
 */
const START_DELAY = 3;

/**
 * Runs one command with a process that was started in advance and waits for its input, which saves the time
 * to start it. Only for programs that do nothing before the end of their input, and nothing for empty input:
 * the spare gets an empty input when it is no longer needed or when this process is killed. nft is such a
 * program (test/kernel/spare-nft.test.ts).
 *
 * The first run starts its own process, as does one whose spare has ended, even if this is only noticed then,
 * for example after the kernel killed it for lack of memory. The next spare starts during a run.
 */
export function spareProcess(path: string, args: readonly string[], maxOutputBytes: number, clock: Clock) {
  let spare: StartedProcess | undefined;
  /** Starts the next spare, or replaces the waiting one. */
  let timer: Timer | undefined;
  let isStopped = false;
  /** Returns the spare if it still waits. */
  const take = (): StartedProcess | undefined => {
    timer?.cancel();
    const taken = spare;
    spare = undefined;
    return taken?.hasEnded === true ? undefined : taken;
  };
  const start = (): void => {
    take()?.kill();
    if (isStopped) return;
    spare = startProcess(path, args, maxOutputBytes);
    timer = clock.after(MAX_AGE, start);
  };
  /** Runs a command, by the spare if it is the spare's command. */
  const run: RunProcess = async (program, given, input, limits) => {
    const anew = () => runProcess(program, given, input, limits);
    if (program !== path || given.join("\0") !== args.join("\0")) return await anew();
    const taken = take();
    if (taken?.pid !== undefined) limits.onStart?.(taken.pid);
    const finished = taken?.finish(input, limits.timeoutMs) ?? anew();
    timer = clock.after(START_DELAY, start);
    const result = await finished;
    // A spare that ended before it had all of its input did nothing, so nothing is done twice. One that was
    // killed later may have done its work.
    const didNothing = taken?.lacksInput === true && !result.timedOut && !result.tooMuchOutput;
    return didNothing ? await anew() : result;
  };
  /** Ends the spare and starts no other. */
  const stop = (): void => {
    isStopped = true;
    take()?.kill();
  };
  return { run, stop };
}
