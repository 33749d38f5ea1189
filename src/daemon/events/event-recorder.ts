import { createHash, randomUUID } from "node:crypto";
import type { Clock, Timer } from "../../base/clock.ts";
import { messageOf } from "../../base/errors.ts";
import { FailureLog } from "../../base/failure-log.ts";
import type { Logger } from "../../base/logger.ts";
import { NamespaceTokens } from "../../base/namespace-tokens.ts";
import { type ApiClient, readText } from "../../kube/client/client.ts";
import { boundedEvent, type EventNote, eventNamespace, eventObject, seriesPatch } from "./events.ts";

/** Takes Events to the API server. */
export interface EventSink {
  /** Creates (`POST`) or merge-patches (`PATCH`) an object. Rejects when the API server is away or refuses it. */
  send(method: "POST" | "PATCH", path: string, body: object): Promise<void>;
}

/** Discards Events: there is no API server to send them to. */
export const NO_EVENTS: EventSink = { send: async () => {} };

/** How long an Event may take, milliseconds: those behind it wait. */
const TIMEOUT = 10_000;

/** An object of this name exists: all nodes give the same name to an Event that they find alike. */
const CONFLICT = 409;

/** Sends Events through the client that the sources use, so that they need no connection of their own. */
export function apiEventSink(client: ApiClient): EventSink {
  return {
    async send(method, path, body) {
      const signal = AbortSignal.timeout(TIMEOUT);
      const answer = await client.request({ method, path, body, signal });
      const text = await readText(answer.body);
      const isThere = method === "POST" && answer.status === CONFLICT;
      if (answer.status >= 300 && !isThere)
        throw new Error(`${method} ${path}: ${answer.status} ${text.slice(0, 200)}`);
    },
  };
}

/** What the recorder needs. */
export interface EventRecorderOptions {
  readonly sink: EventSink;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The node's name. */
  readonly instance: string;
  /** A name no other Event has, of lower-case letters and digits. */
  readonly makeId?: () => string;
  /** Returns numbers in [0, 1). */
  readonly random?: () => number;
  /** Told of each Event that is not delivered: too many of them, or the API server does not take it. */
  readonly onDropped: (event: EventNote) => void;
}

interface Series {
  readonly path: string;
  /** The namespace of its object, "" for the node. */
  readonly about: string;
  /** One Event stands for all nodes: none of them counts repetitions, and each makes it anew after its lifetime. */
  readonly isCommon: boolean;
  readonly createdAt: number;
  count: number;
  reported: number;
  lastAt: number;
}

/** Events about the node at once, and how long until there may be one more, milliseconds: it must not flood the API server. */
const OF_NODE = { burst: 25, refillMs: 60_000 };
/** The same for the objects of each namespace, so that nobody's Events crowd out another's. */
const OF_NAMESPACE = { burst: 10, refillMs: 60_000 };
/** How often repetitions are reported, and how long after the last one the next is a new Event. Milliseconds. */
const SERIES_INTERVAL = 60_000;
const SERIES_LIFETIME = 600_000;
/** How long an API server keeps an Event by default, and over which time all nodes report what they all find. Milliseconds. */
const EVENT_LIFETIME = 3_600_000;
const COMMON_SPREAD = 15_000;
/** What is remembered, at most. */
const MOST_SERIES = 500;
/** What is waiting, at most: about the node, or about the objects of one namespace. */
const MOST_WAITING = 50;
/** How long the end waits for Events that are being sent, milliseconds: the kubelet kills a pod that takes 10 s to end. */
const STOP_WITHIN = 2000;

/**
 * Records Events without ever making its caller wait or fail. The same Event again is counted in its series. What
 * the API server does not take at once is dropped: Events are news, the log has everything.
 */
export class EventRecorder {
  readonly #options: EventRecorderOptions;
  readonly #failures: FailureLog;
  readonly #series = new Map<string, Series>();
  /** How many Events are waiting, by the namespace that they are about, "" for the node. */
  readonly #waiting = new Map<string, number>();
  #queue: Promise<void> = Promise.resolve();
  readonly #ofNode: NamespaceTokens;
  readonly #ofNamespaces: NamespaceTokens;
  #timer: Timer | undefined;
  #stopped = false;
  /** Nothing is sent any more. */
  #closed = false;

  constructor(options: EventRecorderOptions) {
    this.#options = options;
    const { logger, clock } = options;
    const failed = "the API server does not take Events";
    this.#failures = new FailureLog(logger, clock, failed, "the API server takes Events again");
    this.#ofNode = new NamespaceTokens(clock, OF_NODE);
    this.#ofNamespaces = new NamespaceTokens(clock, OF_NAMESPACE);
  }

  /** Records that something happened. */
  record(given: EventNote): void {
    if (this.#stopped) return;
    const event = boundedEvent(given);
    const now = this.#options.clock.now();
    const key = JSON.stringify(event);
    const known = this.#series.get(key);
    if (known !== undefined && isKept(known, now)) {
      known.count += 1;
      known.lastAt = now;
      if (known.isCommon) return;
      this.#timer ??= this.#options.clock.after(SERIES_INTERVAL, () => this.#reportSeries());
      return;
    }
    const { namespace } = event.regarding;
    const tokens = namespace === "" ? this.#ofNode : this.#ofNamespaces;
    if (tokens.take(namespace) !== undefined) this.#create(key, event, now);
    else this.#drop(event);
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
    const { instance, clock, makeId = newId, random = Math.random } = this.#options;
    const isCommon = event.clusterKey !== undefined;
    const id = isCommon ? commonId(event) : makeId();
    const object = eventObject(event, { instance, id, at });
    const path = `/apis/events.k8s.io/v1/namespaces/${eventNamespace(event.regarding)}/events`;
    this.#remember(key, {
      path: `${path}/${object.metadata.name}`,
      about: event.regarding.namespace,
      count: 1,
      reported: 1,
      lastAt: at,
      isCommon,
      createdAt: at,
    });
    const send = () =>
      this.#send("POST", path, event.regarding.namespace, object, () => {
        this.#series.delete(key);
        this.#drop(event);
      });
    if (isCommon) clock.after(random() * COMMON_SPREAD, send);
    else send();
  }

  #drop(event: EventNote): void {
    const { logger, onDropped } = this.#options;
    onDropped(event);
    logger.debug({ reason: event.reason, note: event.note }, "Event not delivered");
  }

  #reportSeries(): void {
    this.#timer = undefined;
    const now = this.#options.clock.now();
    for (const [key, series] of this.#series) {
      if (series.count > series.reported && !series.isCommon) {
        this.#send("PATCH", series.path, series.about, seriesPatch(series), () => this.#series.delete(key));
        series.reported = series.count;
      } else if (now - series.lastAt >= SERIES_LIFETIME) {
        this.#series.delete(key);
      }
    }
  }

  #send(method: "POST" | "PATCH", path: string, about: string, body: object, onFailure: () => void): void {
    const waiting = this.#waiting.get(about) ?? 0;
    if (waiting >= MOST_WAITING) {
      onFailure();
      return;
    }
    this.#waiting.set(about, waiting + 1);
    this.#queue = this.#queue
      .then(() => (this.#closed ? onFailure() : this.#deliver(method, path, body)))
      .catch(onFailure)
      .finally(() => {
        const left = (this.#waiting.get(about) ?? 0) - 1;
        if (left > 0) this.#waiting.set(about, left);
        else this.#waiting.delete(about);
      });
  }

  async #deliver(method: "POST" | "PATCH", path: string, body: object): Promise<void> {
    try {
      await this.#options.sink.send(method, path, body);
      this.#failures.end();
    } catch (error) {
      this.#failures.add(messageOf(error));
      throw error;
    }
  }

  #remember(key: string, series: Series): void {
    this.#series.delete(key);
    this.#series.set(key, series);
    const [oldest] = this.#series.keys();
    if (this.#series.size > MOST_SERIES && oldest !== undefined) this.#series.delete(oldest);
  }
}

/** Whether a repetition belongs to an Event that was sent before. */
function isKept({ isCommon, lastAt, createdAt }: Series, now: number): boolean {
  return now - lastAt < SERIES_LIFETIME && !(isCommon && now - createdAt >= EVENT_LIFETIME);
}

function newId(): string {
  return randomUUID().replaceAll("-", "");
}

/** The same id on all nodes. */
function commonId({ regarding, reason, clusterKey }: EventNote): string {
  return createHash("sha256")
    .update(JSON.stringify([regarding, reason, clusterKey]))
    .digest("hex")
    .slice(0, 32);
}
