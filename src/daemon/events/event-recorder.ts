import { createHash } from "node:crypto";
import type { Clock, Timer } from "../../base/clock.ts";
import { type EventNote, eventNamespace, eventObject, seriesPatch } from "./events.ts";

/** Takes Events to the API server. */
export interface EventSink {
  /** Creates (`POST`) or merge-patches (`PATCH`) an object. Rejects when the API server is away or refuses it. */
  send(method: "POST" | "PATCH", path: string, body: object): Promise<void>;
}

/** What the recorder needs. */
export interface EventRecorderOptions {
  readonly sink: EventSink;
  readonly clock: Clock;
  /** The node's name. */
  readonly instance: string;
  /** A name no other Event has, of lower-case letters and digits. */
  readonly makeId: () => string;
  /** Told of each Event that is not delivered: too many of them, or the API server does not take it. */
  readonly onDropped: (event: EventNote) => void;
}

interface Series {
  readonly path: string;
  count: number;
  reported: number;
  lastAt: number;
}

/** Events at once, and how long until there may be one more, milliseconds. A node must not flood the API server. */
const BURST = 25;
const REFILL_INTERVAL = 60_000;
/** How often repetitions are reported, and how long after the last one the next is a new Event. Milliseconds. */
const SERIES_INTERVAL = 60_000;
const SERIES_LIFETIME = 600_000;
/** What is remembered and what is waiting, at most. */
const MOST_SERIES = 500;
const MOST_WAITING = 50;
/** How long the end waits for Events that are being sent, milliseconds: the kubelet kills a pod that takes 10 s to end. */
const STOP_WITHIN = 2000;

/**
 * Records Events without ever making its caller wait or fail. The same Event again is counted in its series. What
 * the API server does not take at once is dropped: Events are news, the log has everything.
 */
export class EventRecorder {
  readonly #options: EventRecorderOptions;
  readonly #series = new Map<string, Series>();
  #waiting = 0;
  #queue: Promise<void> = Promise.resolve();
  #tokens = BURST;
  #refilledAt: number;
  #timer: Timer | undefined;
  #stopped = false;
  /** Nothing is sent any more. */
  #closed = false;

  constructor(options: EventRecorderOptions) {
    this.#options = options;
    this.#refilledAt = options.clock.monotonic();
  }

  /** Records that something happened. */
  record(event: EventNote): void {
    if (this.#stopped) return;
    const now = this.#options.clock.now();
    const key = JSON.stringify(event);
    const known = this.#series.get(key);
    if (known !== undefined && now - known.lastAt < SERIES_LIFETIME) {
      known.count += 1;
      known.lastAt = now;
      this.#timer ??= this.#options.clock.after(SERIES_INTERVAL, () => this.#reportSeries());
      return;
    }
    if (this.#takeToken()) this.#create(key, event, now);
    else this.#options.onDropped(event);
  }

  /** Records nothing more. Resolves when everything is sent, within 2 s: what is left then is dropped. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    let timeout: Timer | undefined;
    const timedOut = new Promise<void>((resolve) => {
      timeout = this.#options.clock.after(STOP_WITHIN, resolve);
    });
    await Promise.race([this.#queue, timedOut]);
    timeout?.cancel();
    this.#closed = true;
  }

  #create(key: string, event: EventNote, at: number): void {
    const { instance, makeId } = this.#options;
    const id = event.clusterKey === undefined ? makeId() : commonId(event);
    const object = eventObject(event, { instance, id, at });
    const path = `/apis/events.k8s.io/v1/namespaces/${eventNamespace(event.regarding)}/events`;
    this.#remember(key, { path: `${path}/${object.metadata.name}`, count: 1, reported: 1, lastAt: at });
    this.#send("POST", path, object, () => {
      this.#series.delete(key);
      this.#options.onDropped(event);
    });
  }

  #reportSeries(): void {
    this.#timer = undefined;
    const now = this.#options.clock.now();
    for (const [key, series] of this.#series) {
      if (series.count > series.reported) {
        this.#send("PATCH", series.path, seriesPatch(series), () => this.#series.delete(key));
        series.reported = series.count;
      } else if (now - series.lastAt >= SERIES_LIFETIME) {
        this.#series.delete(key);
      }
    }
  }

  #send(method: "POST" | "PATCH", path: string, body: object, onFailure: () => void): void {
    if (this.#waiting >= MOST_WAITING) {
      onFailure();
      return;
    }
    this.#waiting += 1;
    this.#queue = this.#queue
      .then(() => (this.#closed ? onFailure() : this.#options.sink.send(method, path, body)))
      .catch(onFailure)
      .finally(() => {
        this.#waiting -= 1;
      });
  }

  #remember(key: string, series: Series): void {
    this.#series.delete(key);
    this.#series.set(key, series);
    const [oldest] = this.#series.keys();
    if (this.#series.size > MOST_SERIES && oldest !== undefined) this.#series.delete(oldest);
  }

  #takeToken(): boolean {
    const refill = Math.floor((this.#options.clock.monotonic() - this.#refilledAt) / REFILL_INTERVAL);
    this.#refilledAt += refill * REFILL_INTERVAL;
    this.#tokens = Math.min(BURST, this.#tokens + refill);
    if (this.#tokens === 0) return false;
    this.#tokens -= 1;
    return true;
  }
}

/** The same id on all nodes. */
function commonId({ regarding, reason, clusterKey }: EventNote): string {
  return createHash("sha256")
    .update(JSON.stringify([regarding, reason, clusterKey]))
    .digest("hex")
    .slice(0, 32);
}
