import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { hostFiles } from "../../kernel/host.ts";
import type { Nft } from "../../kernel/nft.ts";
import { followLines } from "../../kernel/running-programs.ts";
import { systemClock } from "../../kernel/system-clock.ts";
import { removeStaleTraceTables, traceTableName, untilListening } from "../../kernel/trace-tables.ts";
import { type PacketStory, StoryCollector } from "./packet-story.ts";
import { isLossLine, parseTraceLine } from "./trace-line.ts";
import {
  armTransaction,
  endTraceTransaction,
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
  readonly follow?: typeof followLines;
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

/** The stories from the output of `nft monitor trace`, for a time or until `stop` resolves. */
async function* storiesOf(
  table: string,
  { nft, selections, durationMs, stop, follow = followLines }: TraceOptions,
): AsyncGenerator<PacketStory, void, undefined> {
  const now = () => systemClock.monotonic();
  const collector = new StoryCollector(table, systemClock);
  const ready: PacketStory[] = [];
  const monitor = follow(nft.path, ["monitor", "trace"], (text) => {
    if (isLossLine(text)) collector.lose();
    const line = parseTraceLine(text);
    if (line !== undefined) ready.push(...collector.add(line));
  });
  let failure: unknown;
  monitor.ended.catch((error: unknown) => {
    failure = error;
  });
  /** Returns the complete stories, after reading pending output: this process may have been suspended. */
  const complete = async () => {
    await nextTurn();
    const stories = [...ready.splice(0), ...collector.silentFor(SILENCE_MS)];
    return stories.sort((a, b) => a.sequence - b.sequence);
  };
  let isStopped = false;
  const stopped = stop.then(() => {
    isStopped = true;
  });
  try {
    // The monitor first lists all rules; it prints no text of rules that are added later.
    await Promise.race([untilListening(hostFiles, monitor.pid ?? 0), stopped]);
    await nft.apply(armTransaction(table, selections, Math.ceil(durationMs / 1000) + SPARE_SECONDS));
    const deadline = now() + durationMs;
    for (let left = durationMs; !isStopped && left > 0; left = deadline - now()) {
      await Promise.race([sleep(Math.min(CHECK_MS, left)), stopped]);
      if (failure !== undefined) {
        // Ctrl-C in a terminal also ends the monitor, perhaps before this process.
        await Promise.race([sleep(CHECK_MS), stopped]);
        if (!isStopped) throw failure;
      }
      yield* await complete();
    }
    // The rest of the stories that have begun.
    const end = now() + SILENCE_MS;
    while (collector.end() && failure === undefined && now() <= end) {
      await sleep(CHECK_MS);
      yield* await complete();
    }
    yield* await complete();
    yield* collector.rest();
  } finally {
    monitor.stop();
  }
}
