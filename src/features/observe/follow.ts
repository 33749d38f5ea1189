import { PeriodicTask } from "../../base/periodic-task.ts";
import type { CommandHost, CommandObjects } from "../seam/command.ts";
import { LineFeed } from "./line-feed.ts";
import { ConnectionObserver, mayMatter } from "./observer.ts";
import { isAbout, Names } from "./subject.ts";
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
 * @param first the objects at the start
 * @param hasFigures whether the kernel counts bytes or knows times
 * @returns the lines, and at their end the summary; from now on, no event is missed
 * @throws AppError HOST if the kernel cannot be listened to
 */
export async function follow(
  host: CommandHost,
  first: CommandObjects,
  { served, refused, rate }: Wanted,
  hasFigures: boolean,
): Promise<AsyncIterable<string>> {
  const { clock, format, subject } = host;
  let objects = first;
  let names = new Names(first);
  // Connections that later objects may explain: those that vanished, and those to no Service.
  let vanished = 0;
  let explained = 0;
  const podOf = (address: string) => names.podOf(address);
  const summary = new Summary();
  const feed = new LineFeed(clock, rate, (count) => omittedLine(count, format));
  let figuresFailure: string | undefined;
  const observer = new ConnectionObserver({
    clock,
    table: host.flows,
    failures: {
      add: (reason) => {
        figuresFailure = reason;
      },
      end: () => {},
    },
    attribution: () => names.attribution,
    isWanted: (port, flow) => isAbout(subject, port, flow),
    hasFigures: () => hasFigures,
    take: (observed) => {
      if (observed.condition === "vanished") vanished += 1;
      summary.add(observed);
      feed.push(() => connectionLine(observed, format, podOf));
    },
  });
  const startedAt = clock.monotonic();
  let failure: unknown;
  const listener = served
    ? host.listenToFlows({
        wants: mayMatter,
        onFlow: (change, flow) => observer.see(change, flow),
        onEnd: (error) => {
          failure = error;
          feed.end(error);
        },
      })
    : undefined;
  if ((await listener?.ready) === false) throw failure;
  const refresh = new PeriodicTask(clock, REFRESH_MS, async () => {
    const unexplained = vanished + observer.others;
    if (unexplained === explained) return;
    const latest = await host.objects();
    // It is too early to load them again.
    if (latest === objects) return;
    [objects, names, explained] = [latest, new Names(latest), unexplained];
  });
  const stop = host.interrupted();
  const followRefusals = async () => {
    let isFirst = true;
    for await (const refusals of host.refusals(stop)) {
      for (const refusal of isFirst ? [] : refusals) {
        summary.addRefusal(refusal);
        for (const line of refusalLines(refusal, format)) feed.push(() => line);
      }
      isFirst = false;
    }
  };
  if (refused) followRefusals().catch((error) => feed.end(error));
  let dropped = 0;
  const end = async () => {
    await observer.finished();
    dropped = (await listener?.dropped()) ?? 0;
    listener?.stop();
    refresh.stop();
    feed.end();
  };
  void stop.then(end);
  return (async function* () {
    yield* feed.lines();
    const { omitted } = feed;
    const { others, withoutFigures } = observer;
    const tookMs = clock.monotonic() - startedAt;
    const extent = { tookMs, omitted, others, withoutFigures, figuresFailure, dropped };
    yield* summaryLines(summary, extent, format, podOf);
  })();
}
