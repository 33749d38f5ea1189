import { PeriodicTask } from "../../base/periodic-task.ts";
import type { FlowListener } from "../../kernel/flow-listener.ts";
import type { CommandHost, CommandObjects } from "../seam/command.ts";
import { LineFeed } from "./line-feed.ts";
import { ConnectionObserver, mayMatter, type Observation } from "./observer.ts";
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
  const names = new LatestNames(host, objects);
  const follower = new Follower(host, names, rate, hasFigures);
  if (served) await follower.listen();
  const interrupted = host.interrupted();
  if (refused)
    await new Promise<void>((begun) => {
      void interrupted.then(begun);
      void follower.followRefusals(interrupted, begun);
    });
  const refresh = new PeriodicTask(host.clock, REFRESH_MS, () => names.refresh(follower.unexplained));
  void interrupted.then(() => {
    refresh.stop();
    return follower.end();
  });
  return follower.lines();
}

/** The names by the latest objects. */
class LatestNames {
  current: Names;
  readonly #host: CommandHost;
  #objects: CommandObjects;
  /** The number of connections that earlier objects did not explain. */
  #before = 0;

  constructor(host: CommandHost, objects: CommandObjects) {
    this.#host = host;
    this.#objects = objects;
    this.current = new Names(objects);
  }

  /** Takes the latest objects if there are more connections that the present ones do not explain. */
  async refresh(unexplained: number): Promise<void> {
    if (unexplained === this.#before) return;
    const objects = await this.#host.objects();
    // It is too early to load them again.
    if (objects === this.#objects) return;
    this.#objects = objects;
    this.#before = unexplained;
    this.current = new Names(objects);
  }
}

/** Turns connections and refusals into lines and a summary. */
class Follower {
  readonly #host: CommandHost;
  readonly #names: LatestNames;
  readonly #feed: LineFeed;
  readonly #observer: ConnectionObserver;
  readonly #summary = new Summary();
  readonly #startedAt: number;
  #listener: FlowListener | undefined;
  /** Connections to endpoints that no EndpointSlice has. */
  #vanished = 0;
  /** Notifications that the kernel dropped. */
  #dropped = 0;
  #figuresFailure: string | undefined;

  constructor(host: CommandHost, names: LatestNames, rate: number, hasFigures: boolean) {
    const { clock, flows, format, subject } = host;
    this.#host = host;
    this.#names = names;
    this.#startedAt = clock.monotonic();
    this.#feed = new LineFeed(clock, rate, (count) => omittedLine(count, format));
    const failed = (reason: string) => {
      this.#figuresFailure = reason;
    };
    this.#observer = new ConnectionObserver({
      clock,
      table: flows,
      failures: { add: failed, end: () => {} },
      attribution: () => names.current.attribution,
      isWanted: (port, flow) => isAbout(subject, port, flow),
      hasFigures: () => hasFigures,
      take: (observed) => this.#take(observed),
    });
  }

  /** The number of connections that later objects may explain. */
  get unexplained(): number {
    return this.#vanished + this.#observer.others;
  }

  /** Resolves when connections are followed. @throws AppError HOST if the kernel cannot be listened to */
  async listen(): Promise<void> {
    let failure: unknown;
    this.#listener = this.#host.listenToFlows({
      wants: mayMatter,
      onFlow: (change, flow) => this.#observer.see(change, flow),
      onEnd: (error) => {
        failure = error;
        this.#feed.end(error);
      },
    });
    if (!(await this.#listener.ready)) throw failure;
  }

  /**
   * Follows new refusals. Never rejects.
   * @param begun called after the first reading, which has those of the last hour: later ones are new
   */
  async followRefusals(stop: Promise<unknown>, begun: () => void): Promise<void> {
    let isFirst = true;
    try {
      for await (const refusals of this.#host.refusals(stop)) {
        for (const refusal of isFirst ? [] : refusals) {
          this.#summary.addRefusal(refusal);
          for (const line of refusalLines(refusal, this.#host.format)) this.#feed.push(() => line);
        }
        isFirst = false;
        begun();
      }
    } catch (error) {
      this.#feed.end(error);
    } finally {
      begun();
    }
  }

  /** Ends the lines when every end of a connection so far has one. */
  async end(): Promise<void> {
    await this.#observer.finished();
    this.#dropped = (await this.#listener?.dropped()) ?? 0;
    this.#listener?.stop();
    this.#feed.end();
  }

  /** Yields the lines as they come, then the summary. @throws the error that ends them */
  async *lines(): AsyncGenerator<string, void, undefined> {
    const { clock, format } = this.#host;
    yield* this.#feed.lines();
    const extent = {
      tookMs: clock.monotonic() - this.#startedAt,
      omitted: this.#feed.omitted,
      others: this.#observer.others,
      withoutFigures: this.#observer.withoutFigures,
      figuresFailure: this.#figuresFailure,
      dropped: this.#dropped,
    };
    yield* summaryLines(this.#summary, extent, format, this.#podOf);
  }

  #take(observed: Observation): void {
    if (observed.condition === "vanished") this.#vanished += 1;
    this.#summary.add(observed);
    this.#feed.push(() => connectionLine(observed, this.#host.format, this.#podOf));
  }

  readonly #podOf = (address: string): string => this.#names.current.podOf(address);
}
