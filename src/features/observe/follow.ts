import { PeriodicTask } from "../../base/periodic-task.ts";
import type { FlowListener } from "../../kernel/flow-listener.ts";
import type { CommandHost, CommandObjects } from "../seam/command.ts";
import { LineFeed } from "./line-feed.ts";
import { ConnectionObserver, mayMatter } from "./observer.ts";
import { isAbout, namesIn } from "./subject.ts";
import { Summary } from "./summary.ts";
import { connectionLine, omittedLine, refusalLines, summaryLines } from "./words.ts";

/** Time after which newer objects may explain a connection. Milliseconds. */
const REFRESH_MS = 10_000;

/** What is followed, and how. */
export interface Wanted {
  readonly served: boolean;
  readonly refused: boolean;
  /** Maximum number of lines a second. */
  readonly rate: number;
}

/**
 * Follows connections and refusals until the command is interrupted.
 * @param objects those of the start
 * @param hasFigures whether the kernel counts bytes or knows times
 * @returns the lines, and at their end the summary; from now on, no event is missed
 * @throws AppError HOST if the kernel cannot be listened to
 */
export async function follow(
  host: CommandHost,
  objects: CommandObjects,
  { served, refused, rate }: Wanted,
  hasFigures: boolean,
): Promise<AsyncIterable<string>> {
  const { clock, flows: table, format, subject } = host;
  const startedAt = clock.monotonic();
  const feed = new LineFeed(clock, rate, (count) => omittedLine(count, format));
  const summary = new Summary();
  const names = latestNames(host, objects);
  const podOf = (address: string) => names.current.podOf(address);
  /** Connections to endpoints that no EndpointSlice has. */
  let vanished = 0;
  let figuresFailure: string | undefined;
  const fail = (reason: string) => {
    figuresFailure = reason;
  };
  const observer = new ConnectionObserver({
    clock,
    table,
    failures: { add: fail, end: () => {} },
    attribute: (flow) => names.current.attribute(flow),
    isWanted: (port, flow) => isAbout(subject, port, flow),
    hasFigures: () => hasFigures,
    take: (observed) => {
      if (observed.condition === "vanished") vanished += 1;
      summary.add(observed);
      feed.push(() => connectionLine(observed, format, podOf));
    },
  });
  const listener = served ? await listen(host, observer, feed) : undefined;
  const interrupted = host.interrupted();
  if (refused)
    await new Promise<void>((begun) => {
      void interrupted.then(begun);
      void followRefusals(host, feed, summary, interrupted, begun);
    });
  const refresh = new PeriodicTask(clock, REFRESH_MS, () => names.refresh(vanished + observer.others));
  /** Notifications that the kernel dropped. */
  let dropped = 0;
  const end = async () => {
    refresh.stop();
    dropped = (await listener?.dropped()) ?? 0;
    // Before it waits: every end of a connection so far gets a line, and there are always further ones.
    listener?.stop();
    await observer.finished();
    feed.end();
  };
  void interrupted.then(end);
  const lines = async function* () {
    yield* feed.lines();
    const tookMs = clock.monotonic() - startedAt;
    const { others, withoutFigures } = observer;
    const extent = { tookMs, omitted: feed.omitted, others, withoutFigures, figuresFailure, dropped };
    yield* summaryLines(summary, extent, format, podOf);
  };
  return lines();
}

/** Returns the names by the latest objects. */
function latestNames(host: CommandHost, objects: CommandObjects) {
  let explained = 0;
  const names = {
    current: namesIn(objects),
    /** Takes the latest objects if there are more connections that those before did not explain. */
    refresh: async (unexplained: number): Promise<void> => {
      if (unexplained === explained) return;
      const latest = await host.objects();
      // It is too early to load them again.
      if (latest === names.current.objects) return;
      names.current = namesIn(latest);
      explained = unexplained;
    },
  };
  return names;
}

/** Resolves when connections are followed. @throws AppError HOST if the kernel cannot be listened to */
async function listen(
  host: CommandHost,
  observer: ConnectionObserver,
  feed: LineFeed,
): Promise<FlowListener> {
  let failure: unknown;
  const listener = host.listenToFlows({
    wants: mayMatter,
    onFlow: (change, flow) => observer.see(change, flow),
    onEnd: (error) => {
      failure = error;
      feed.end(error);
    },
  });
  if (!(await listener.ready)) throw failure;
  return listener;
}

/**
 * Follows new refusals. Never rejects.
 * @param begun called after the first reading, which has those of the last hour: later ones are new
 */
async function followRefusals(
  { refusals, format }: CommandHost,
  feed: LineFeed,
  summary: Summary,
  stop: Promise<unknown>,
  begun: () => void,
): Promise<void> {
  let isFirst = true;
  try {
    for await (const some of refusals(stop)) {
      for (const refusal of isFirst ? [] : some) {
        summary.addRefusal(refusal);
        for (const line of refusalLines(refusal, format)) feed.push(() => line);
      }
      isFirst = false;
      begun();
    }
  } catch (error) {
    feed.end(error);
  } finally {
    begun();
  }
}
