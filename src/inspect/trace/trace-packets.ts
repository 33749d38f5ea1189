import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "../../base/clock.ts";
import { AppError } from "../../base/errors.ts";
import { hostFiles } from "../../kernel/host.ts";
import type { Nft } from "../../kernel/nft.ts";
import { type FollowedProgram, type FollowLines, followLines } from "../../kernel/running-programs.ts";
import { systemClock } from "../../kernel/system-clock.ts";
import { removeStaleTraceTables, traceTableName, untilListening } from "../../kernel/trace-tables.ts";
import { type PacketStory, StoryCollector } from "./packet-story.ts";
import { isLossLine, parseTraceLine } from "./trace-line.ts";
import {
  armTransaction,
  endTraceTransaction,
  LIMITED_CHAIN,
  type PacketSelection,
  traceTransaction,
} from "./trace-rules.ts";

/** The parts and limits of a trace. */
export interface TraceOptions {
  readonly nft: Nft;
  readonly selections: readonly PacketSelection[];
  /** Duration of the trace, milliseconds. */
  readonly durationMs: number;
  /** Maximum number of traced packets a second, for each family. */
  readonly rate: number;
  /** Ends the trace early when it resolves. */
  readonly stop: Promise<unknown>;
  readonly follow?: FollowLines;
}

/** Time without a line after which a packet has passed its last chain. Milliseconds. */
const SILENCE_MS = 500;
const CHECK_MS = 100;

/**
 * Seconds by which the kernel's own time limit exceeds the duration, so that the command ends the trace
 * first.
 */
const SPARE_SECONDS = 5;

/**
 * Traces real packets through the chains of all tables, and yields each story when it is complete. The
 * tracing rules are in a table of their own, which is always removed at the end. Packets that other programs
 * trace are ignored.
 * @throws AppError as nft does; HOST if `nft monitor` ends unexpectedly
 */
export async function* tracePackets(options: TraceOptions): AsyncGenerator<PacketStory, void, undefined> {
  const { nft, selections, rate } = options;
  const table = traceTableName();
  await removeStaleTraceTables(nft);
  await nft.apply(traceTransaction(table, selections, rate));
  try {
    yield* storiesOf(table, options);
  } finally {
    await nft.apply(endTraceTransaction(table, selections));
  }
}

async function* storiesOf(
  table: string,
  options: TraceOptions,
): AsyncGenerator<PacketStory, void, undefined> {
  const { nft, selections, durationMs, stop } = options;
  const monitor = new StoryQueue(table, nft.path, options.follow ?? followLines, systemClock);
  try {
    // The monitor first lists all rules; it prints no text of rules that are added later.
    await Promise.race([untilListening(hostFiles, monitor.program.pid ?? 0), stop]);
    await nft.apply(armTransaction(table, selections, Math.ceil(durationMs / 1000) + SPARE_SECONDS));
    yield* monitor.during(durationMs, stop);
  } finally {
    monitor.program.stop();
  }
}

/** The stories from the output of `nft monitor trace`. */
class StoryQueue {
  readonly program: FollowedProgram;
  readonly #clock: Clock;
  readonly #collector: StoryCollector;
  readonly #ready: PacketStory[] = [];
  #failure: unknown;

  constructor(table: string, nftPath: string, follow: FollowLines, clock: Clock) {
    this.#clock = clock;
    this.#collector = new StoryCollector(table, LIMITED_CHAIN, clock);
    this.program = follow(nftPath, ["monitor", "trace"], (text) => this.#add(text));
    this.program.ended.catch((error: unknown) => {
      this.#failure = error ?? new AppError("HOST", `${nftPath} monitor trace ended`);
    });
  }

  #add(text: string): void {
    if (isLossLine(text)) this.#collector.lose();
    const line = parseTraceLine(text);
    if (line !== undefined) this.#ready.push(...this.#collector.add(line));
  }

  /**
   * Yields stories for `ms` milliseconds or until `stop` resolves, then the rest of those that have begun.
   */
  async *during(ms: number, stop: Promise<unknown>): AsyncGenerator<PacketStory, void, undefined> {
    let isStopped = false;
    const stopped = stop.then(() => {
      isStopped = true;
    });
    const deadline = this.#clock.monotonic() + ms;
    for (let left = ms; !isStopped && left > 0; left = deadline - this.#clock.monotonic()) {
      await Promise.race([sleep(Math.min(CHECK_MS, left)), stopped]);
      if (this.#failure !== undefined) {
        // Ctrl-C in a terminal also ends the monitor, perhaps before this process.
        await Promise.race([sleep(CHECK_MS), stopped]);
        if (!isStopped) throw this.#failure;
      }
      yield* await this.#complete();
    }
    const end = this.#clock.monotonic() + SILENCE_MS;
    while (this.#collector.end() && this.#failure === undefined && this.#clock.monotonic() <= end) {
      await sleep(CHECK_MS);
      yield* await this.#complete();
    }
    yield* await this.#complete();
    yield* this.#collector.rest();
  }

  /** Returns the complete stories, after reading pending output: this process may have been suspended. */
  async #complete(): Promise<PacketStory[]> {
    await nextTurn();
    const stories = [...this.#ready.splice(0), ...this.#collector.silentFor(SILENCE_MS)];
    return stories.sort((a, b) => a.sequence - b.sequence);
  }
}
