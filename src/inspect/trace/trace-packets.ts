import { AppError } from "../../base/errors.ts";
import { hostFiles } from "../../kernel/host.ts";
import type { Nft } from "../../kernel/nft.ts";
import { type FollowedProgram, type FollowLines, followLines } from "../../kernel/stream-lines.ts";
import { removeStaleTraceTables, traceTableName, untilListening } from "../../kernel/trace-tables.ts";
import { type PacketStory, StoryCollector } from "./packet-story.ts";
import { parseTraceLine } from "./trace-line.ts";
import { armTransaction, endTraceTransaction, type PacketSelection, traceTransaction } from "./trace-rules.ts";

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
  const { nft, selections, durationMs, rate } = options;
  const table = traceTableName();
  await removeStaleTraceTables(nft);
  await nft.apply(traceTransaction(table, selections, rate));
  const monitor = new StoryQueue(table, nft.path, options.follow ?? followLines);
  try {
    // It lists every rule first: those that come later have no text in its output.
    await untilListening(hostFiles, monitor.program.pid ?? 0);
    await nft.apply(armTransaction(table, selections, Math.ceil(durationMs / 1000) + SPARE_SECONDS));
    yield* monitor.until(Date.now() + durationMs, options.stop);
  } finally {
    monitor.program.stop();
    await nft.apply(endTraceTransaction(table, selections));
  }
}

/** The stories that come out of `nft monitor trace`. */
class StoryQueue {
  readonly program: FollowedProgram;
  readonly #collector: StoryCollector;
  readonly #ready: PacketStory[] = [];
  #failure: unknown;

  constructor(table: string, nftPath: string, follow: FollowLines) {
    this.#collector = new StoryCollector((place) => place.table === table);
    this.program = follow(nftPath, ["monitor", "trace"], (text) => {
      const line = parseTraceLine(text);
      if (line !== undefined) this.#ready.push(...this.#collector.add(line, Date.now()));
    });
    this.program.ended.catch((error: unknown) => {
      this.#failure = error ?? new AppError("HOST", `${nftPath} monitor trace ended`);
    });
  }

  /** Gives the stories until a time, or until `stop` resolves; then those that are not complete, too. */
  async *until(deadline: number, stop: Promise<unknown>): AsyncGenerator<PacketStory, void, undefined> {
    let isStopped = false;
    const stopped = stop.then(() => {
      isStopped = true;
    });
    while (!isStopped && Date.now() < deadline) {
      await Promise.race([pause(Math.min(LOOK_MS, Math.max(deadline - Date.now(), 0))), stopped]);
      if (this.#failure !== undefined) {
        // A terminal's interrupt ends the monitor, too, and may reach it first.
        await Promise.race([pause(LOOK_MS), stopped]);
        if (!isStopped) throw this.#failure;
      }
      this.#ready.push(...this.#collector.silentSince(Date.now() - SILENCE_MS));
      yield* this.#taken();
    }
    this.#ready.push(...this.#collector.silentSince(Number.POSITIVE_INFINITY));
    yield* this.#taken();
  }

  #taken(): PacketStory[] {
    return this.#ready.splice(0).sort((a, b) => a.startedAt - b.startedAt);
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
