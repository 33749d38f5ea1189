import type { Clock } from "../../base/clock.ts";
import { AppError } from "../../base/errors.ts";
import { hostFiles } from "../../kernel/host.ts";
import type { Nft } from "../../kernel/nft.ts";
import { type FollowedProgram, type FollowLines, followLines } from "../../kernel/stream-lines.ts";
import { systemClock } from "../../kernel/system-clock.ts";
import { removeStaleTraceTables, traceTableName, untilListening } from "../../kernel/trace-tables.ts";
import { type PacketStory, StoryCollector } from "./packet-story.ts";
import { isLossLine, parseTraceLine } from "./trace-line.ts";
import {
  armTransaction,
  endTraceTransaction,
  HOOK_ENDS,
  LIMITED_CHAIN,
  type PacketSelection,
  traceTransaction,
} from "./trace-rules.ts";

/** The parts and bounds of a trace. */
export interface TraceOptions {
  readonly nft: Nft;
  readonly selections: readonly PacketSelection[];
  /** How long packets are traced, milliseconds. */
  readonly durationMs: number;
  /** Traced packets a second, for each family. */
  readonly rate: number;
  /** Ends the trace early when it resolves. */
  readonly stop: Promise<unknown>;
  readonly follow?: FollowLines;
}

/** A packet whose trace has had no line for so long has passed its last chain. */
const SILENCE_MS = 500;
const LOOK_MS = 100;

/** Lets the kernel's own end of the tracing come after ours. */
const SPARE_SECONDS = 5;

/**
 * Traces real packets through the chains of all tables, and tells each one's story as soon as it is complete. Puts
 * rules into a table of its own, which it removes at the end, however that comes. Stories of other programs' traces
 * are not told.
 * @throws AppError as nft does; HOST when `nft monitor` ends by itself
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
    // It lists every rule first: those that come later have no text in its output.
    await Promise.race([untilListening(hostFiles, monitor.program.pid ?? 0), stop]);
    await nft.apply(armTransaction(table, selections, Math.ceil(durationMs / 1000) + SPARE_SECONDS));
    yield* monitor.during(durationMs, stop);
  } finally {
    monitor.program.stop();
  }
}

/** The stories that come out of `nft monitor trace`. */
class StoryQueue {
  readonly program: FollowedProgram;
  readonly #clock: Clock;
  readonly #collector: StoryCollector;
  readonly #ready: PacketStory[] = [];
  #failure: unknown;

  constructor(table: string, nftPath: string, follow: FollowLines, clock: Clock) {
    this.#clock = clock;
    this.#collector = new StoryCollector(table, LIMITED_CHAIN, HOOK_ENDS, clock);
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

  /** Gives the stories of a length of time, or until `stop` resolves; then the rest of those that have begun. */
  async *during(ms: number, stop: Promise<unknown>): AsyncGenerator<PacketStory, void, undefined> {
    let isStopped = false;
    const stopped = stop.then(() => {
      isStopped = true;
    });
    const deadline = this.#clock.monotonic() + ms;
    for (let left = ms; !isStopped && left > 0; left = deadline - this.#clock.monotonic()) {
      await Promise.race([pause(Math.min(LOOK_MS, left)), stopped]);
      if (this.#failure !== undefined) {
        // A terminal's interrupt ends the monitor, too, and may reach it first.
        await Promise.race([pause(LOOK_MS), stopped]);
        if (!isStopped) throw this.#failure;
      }
      yield* await this.#complete();
    }
    const end = this.#clock.monotonic() + SILENCE_MS;
    while (this.#collector.end() && this.#failure === undefined && this.#clock.monotonic() <= end) {
      await pause(LOOK_MS);
      yield* await this.#complete();
    }
    yield* await this.#complete();
    yield* this.#collector.rest();
  }

  /** The stories that are complete, after a look at what has come meanwhile: this process may have stood still. */
  async #complete(): Promise<PacketStory[]> {
    await new Promise((resolve) => setImmediate(resolve));
    const stories = [...this.#ready.splice(0), ...this.#collector.silentFor(SILENCE_MS)];
    return stories.sort((a, b) => a.sequence - b.sequence);
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
