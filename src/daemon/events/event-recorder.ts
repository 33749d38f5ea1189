import { createHash, randomUUID } from "node:crypto";
import { text } from "node:stream/consumers";
import { type Clock, type Timer, wallTime } from "../../base/clock.ts";
import { messageOf } from "../../base/errors.ts";
import { FailureLog } from "../../base/failure-log.ts";
import { addToCount, setNewest } from "../../base/group-by.ts";
import type { Logger } from "../../base/logger.ts";
import { NamespaceTokens } from "../../base/namespace-tokens.ts";
import type { ApiClient } from "../../kube/client/client.ts";
import { boundedEvent, type EventNote, eventNamespace, eventObject, seriesPatch } from "./events.ts";

/**
 * Sends an Event to the API server: creates (`POST`) or merge-patches (`PATCH`) an object. Rejects if the API
 * server is unavailable or refuses it: with {@link Gone} if that is no fault.
 */
export type SendEvent = (method: "POST" | "PATCH", path: string, body: object) => Promise<void>;

/** The namespace of an Event is being deleted, or it or the Event is gone. */
export class Gone extends Error {}

/** Discards Events, as there is no API server. */
export const NO_EVENTS: SendEvent = async () => {};

/** Maximum time to send an Event, as others wait for it. Milliseconds. */
const TIMEOUT = 10_000;

/** HTTP status if an object with this name exists: all nodes give a common Event the same name. */
const CONFLICT = 409;

/** What the API server's NamespaceLifecycle admission says of a namespace that is being deleted. */
const ENDING = "because it is being terminated";

/** Sends Events over the connection of the reflectors. */
export function eventSender(client: ApiClient): SendEvent {
  return async (method, path, body) => {
    const signal = AbortSignal.timeout(TIMEOUT);
    const answer = await client.request({ method, path, body, signal });
    const said = await text(answer.body);
    const { status } = answer;
    if (status < 300 || (method === "POST" && status === CONFLICT)) return;
    const reason = `${method} ${path}: ${status} ${said.slice(0, 200)}`;
    throw status === 404 || (status === 403 && said.includes(ENDING)) ? new Gone(reason) : new Error(reason);
  };
}

/** Options of {@link eventRecorder}. */
export interface EventRecorderOptions {
  readonly send: SendEvent;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The node's name. */
  readonly instance: string;
  /** Returns a unique name of lower-case letters and digits. */
  readonly makeId?: () => string;
  /** Returns numbers in [0, 1). */
  readonly random?: () => number;
  /** Called for each Event that is not delivered: there are too many, or the API server refuses it. */
  readonly onDropped: (event: EventNote) => void;
}

/** An Event and its repetitions. Times are monotonic. */
interface Series {
  readonly path: string;
  /** The namespace of its object; "" for the node. */
  readonly about: string;
  /**
   * Whether one Event represents all nodes: they do not count repetitions, and record it again after its
   * lifetime.
   */
  readonly isCommon: boolean;
  readonly createdAt: number;
  count: number;
  reported: number;
  lastAt: number;
}

/**
 * Rate of Events about the node: a burst, and the time until one more is allowed. Protects the API server.
 */
const OF_NODE = { burst: 25, refillMs: 60_000 };

/**
 * The same for the objects of each namespace, so that Events of one namespace do not displace those of
 * another.
 */
const OF_NAMESPACE = { burst: 10, refillMs: 60_000 };

/**
 * Interval of reports of repetitions, and time after the last one until the next is a new Event.
 * Milliseconds.
 */
const SERIES_INTERVAL = 60_000;
const SERIES_LIFETIME = 600_000;

/** Time that an API server keeps an Event by default. Milliseconds. */
const EVENT_LIFETIME = 3_600_000;

/** Time over which nodes spread an Event that all of them record. Milliseconds. */
const COMMON_SPREAD = 15_000;

/** Maximum number of remembered series. */
const MOST_SERIES = 500;

/** Maximum number of waiting Events about the node, or about the objects of one namespace. */
const MOST_WAITING = 50;

/** Time that stopping waits for Events, as the kubelet kills a pod that takes 10 s to end. Milliseconds. */
const STOP_WITHIN = 2000;

/** Records Events. */
export type EventRecorder = ReturnType<typeof eventRecorder>;

/**
 * Records Events. Its caller neither waits nor fails. A repeated Event is counted in its series. Events that
 * the API server does not accept at the first attempt are dropped; the log has all of them.
 */
export function eventRecorder(options: EventRecorderOptions) {
  const { send, clock, logger, instance, makeId = newId, random = Math.random, onDropped } = options;
  const failures = new FailureLog({ clock, logger }, "send Events to the API server", "");
  const known = new Map<string, Series>();
  /** Number of waiting Events by namespace, "" for the node. */
  const waiting = new Map<string, number>();
  const ofNode = new NamespaceTokens(clock, OF_NODE);
  const ofNamespaces = new NamespaceTokens(clock, OF_NAMESPACE);
  let queue: Promise<void> = Promise.resolve();
  let timer: Timer | undefined;
  let isStopped = false;
  /** Whether sending has ended. */
  let isClosed = false;

  const drop = (event: EventNote) => {
    onDropped(event);
    logger.debug({ reason: event.reason, note: event.note }, "Event not delivered");
  };

  const deliver = async (method: "POST" | "PATCH", path: string, body: object) => {
    try {
      await send(method, path, body);
      failures.end();
    } catch (error) {
      if (!(error instanceof Gone)) failures.add(messageOf(error));
      throw error;
    }
  };

  const enqueue = (
    method: "POST" | "PATCH",
    path: string,
    about: string,
    body: object,
    onFailure: () => void,
  ) => {
    if ((waiting.get(about) ?? 0) >= MOST_WAITING) {
      onFailure();
      return;
    }
    addToCount(waiting, about, 1);
    queue = queue
      .then(() => (isClosed ? onFailure() : deliver(method, path, body)))
      .catch(onFailure)
      .finally(() => addToCount(waiting, about, -1));
  };

  const reportSeries = () => {
    timer = undefined;
    const now = clock.monotonic();
    for (const [key, series] of known) {
      if (series.count > series.reported && !series.isCommon) {
        const patch = seriesPatch(series.count, wallTime(clock, series.lastAt));
        enqueue("PATCH", series.path, series.about, patch, () => known.delete(key));
        series.reported = series.count;
      } else if (now - series.lastAt >= SERIES_LIFETIME) {
        known.delete(key);
      }
    }
  };

  /** @param now on the monotonic clock */
  const create = (key: string, event: EventNote, now: number) => {
    const isCommon = event.clusterKey !== undefined;
    const id = isCommon ? commonId(event) : makeId();
    const object = eventObject(event, { instance, id, at: clock.now() });
    const about = event.regarding.namespace;
    const path = `/apis/events.k8s.io/v1/namespaces/${eventNamespace(event.regarding)}/events`;
    const times = { count: 1, reported: 1, lastAt: now, createdAt: now };
    const series = { path: `${path}/${object.metadata.name}`, about, isCommon, ...times };
    setNewest(known, key, series, MOST_SERIES);
    const sendNow = () =>
      enqueue("POST", path, about, object, () => {
        known.delete(key);
        drop(event);
      });
    if (isCommon) clock.after(random() * COMMON_SPREAD, sendNow);
    else sendNow();
  };

  return {
    record(given: EventNote): void {
      if (isStopped) return;
      const event = boundedEvent(given);
      const now = clock.monotonic();
      const key = JSON.stringify(event);
      const series = known.get(key);
      if (series !== undefined && isKept(series, now)) {
        series.count += 1;
        series.lastAt = now;
        if (!series.isCommon) timer ??= clock.after(SERIES_INTERVAL, reportSeries);
        return;
      }
      const { namespace } = event.regarding;
      const tokens = namespace === "" ? ofNode : ofNamespaces;
      if (tokens.take(namespace) !== undefined) create(key, event, now);
      else drop(event);
    },
    /** Stops recording. Resolves when all Events are sent, after at most 2 s; the rest is dropped. */
    async stop(): Promise<void> {
      isStopped = true;
      timer?.cancel();
      let timeout: Timer | undefined;
      const timedOut = new Promise<void>((resolve) => {
        timeout = clock.after(STOP_WITHIN, resolve);
      });
      await Promise.race([queue, timedOut]);
      timeout?.cancel();
      isClosed = true;
    },
  };
}

/** Whether a repetition belongs to an earlier Event. */
function isKept({ isCommon, lastAt, createdAt }: Series, now: number): boolean {
  return now - lastAt < SERIES_LIFETIME && !(isCommon && now - createdAt >= EVENT_LIFETIME);
}

const newId = () => randomUUID().replaceAll("-", "");

/** Returns an id that is the same on all nodes. */
function commonId({ regarding, reason, clusterKey }: EventNote): string {
  return createHash("sha256")
    .update(JSON.stringify([regarding, reason, clusterKey]))
    .digest("hex")
    .slice(0, 32);
}
