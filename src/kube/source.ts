import type { EndpointSlice } from "../model/endpoint-slice.ts";
import type { Node, ServiceCIDR } from "../model/node.ts";
import type { Service } from "../model/service.ts";

/** The resources that a service proxy follows, by their names in API paths, as they are displayed. */
export const RESOURCE_NAMES = ["services", "endpointslices", "nodes", "servicecidrs"] as const;

export type ResourceName = (typeof RESOURCE_NAMES)[number];

/**
 * Receives the objects of one resource. `key` is `namespace/name`, or `name` for a resource without
 * namespaces. Calls are synchronous and in order, and there is none after the source was stopped. An object
 * that was deleted and created again (another uid) under the same key is reported as `onDelete`, then
 * `onUpsert` without `previous`.
 */
export interface SourceHandler<T> {
  /** `object` is new (`previous` is undefined) or changed. */
  onUpsert(key: string, object: T, previous: T | undefined): void;
  /** `previous` was deleted, or its new version is invalid. */
  onDelete(key: string, previous: T): void;
  /**
   * The object is invalid and counts as absent; `error` has the reason. Called once for each version of it.
   */
  onInvalid(key: string, error: unknown): void;
  /** A complete list has been delivered: the first one, and every later one. */
  onSynced(): void;
}

/** A handler for each resource. */
export interface SourceHandlers {
  readonly services: SourceHandler<Service>;
  readonly endpointslices: SourceHandler<EndpointSlice>;
  readonly nodes: SourceHandler<Node>;
  readonly servicecidrs: SourceHandler<ServiceCIDR>;
}

/** The objects of a cluster that a service proxy reads. */
export interface ListedObjects {
  readonly services: readonly Service[];
  readonly endpointSlices: readonly EndpointSlice[];
  readonly nodes: readonly Node[];
  readonly serviceCIDRs: readonly ServiceCIDR[];
}

/** An object of any resource. */
export type AnyObject = Service | EndpointSlice | Node | ServiceCIDR;

/** Builds a value for each resource. */
export function byResource<T>(make: (name: ResourceName) => T): Readonly<Record<ResourceName, T>> {
  const values = RESOURCE_NAMES.map((name) => [name, make(name)]);
  return Object.fromEntries(values) as Record<ResourceName, T>;
}

const NO_EVENTS = { added: 0, modified: 0, deleted: 0, bookmark: 0 };

/** The kinds of watch events that are counted. */
export type SourceEventKind = keyof typeof NO_EVENTS;

const NO_ERRORS = {
  /** There is no connection, or it broke. */
  connection: 0,
  /** Nothing was received within a deadline. */
  timeout: 0,
  /** HTTP 401. */
  unauthorized: 0,
  /** HTTP 403. */
  forbidden: 0,
  /** HTTP 410, or an ERROR event of that code: the known resourceVersion is too old. */
  gone: 0,
  /** HTTP 429. */
  throttled: 0,
  /** HTTP 5xx, other statuses, other ERROR events. */
  server: 0,
  /** The answer is malformed: broken JSON, a truncated line, an unreadable file. */
  parse: 0,
  /** A list lacks every known object, even those that each cluster has. */
  implausible: 0,
  /** The server closed a watch immediately, without an event. */
  "short-watch": 0,
  /** One object is invalid. */
  "invalid-object": 0,
  /** A {@link SourceHandler} threw. */
  handler: 0,
};

/** The kinds of errors that are counted. */
export type SourceErrorKind = keyof typeof NO_ERRORS;

/** The state of the source of one resource. Times are milliseconds since 1970, 0 for never. */
export interface SourceState {
  /** A complete list has been delivered. Stays true. */
  readonly synced: boolean;
  /** The resource is not served here: it counts as synced and empty, and is tried again from time to time. */
  readonly absent: boolean;
  /** Number of valid objects that are held. */
  readonly objects: number;
  /** When a list, an event or a bookmark was last received. */
  readonly lastEventAt: number;
  /** When a list was last complete. */
  readonly lastSyncAt: number;
  /** Start of the current uninterrupted watch; 0 while there is none. */
  readonly followedSince: number;
  /** The number of complete lists after the first. */
  readonly relists: number;
  readonly events: Readonly<Record<SourceEventKind, number>>;
  readonly errors: Readonly<Record<SourceErrorKind, number>>;
  /** The reason why it cannot be followed now; "" if it can. */
  readonly failure: string;
  /** The kind of that failure; absent without one. */
  readonly failureKind?: SourceErrorKind | undefined;
}

/** A source of objects: an API server, or files. */
export interface ObjectSource {
  /** Starts to call the handlers. Call it once. */
  start(): void;
  /** Stops for good: no handler is called afterwards. */
  stop(): void;
  states(): Readonly<Record<ResourceName, SourceState>>;
}

/** The state of a source that has not started. */
export const INITIAL_STATE: SourceState = {
  synced: false,
  absent: false,
  objects: 0,
  lastEventAt: 0,
  lastSyncAt: 0,
  followedSince: 0,
  relists: 0,
  events: NO_EVENTS,
  errors: NO_ERRORS,
  failure: "",
};

/**
 * Time without a watch after which a resource counts as not followed, milliseconds. A broken watch is opened
 * again within seconds.
 */
const OUTAGE = 60_000;

/**
 * Returns the resources that have not been followed for a minute. Their last known objects stay in use.
 * @param now milliseconds since 1970
 */
export function unfollowedResources(
  states: Readonly<Record<ResourceName, Pick<SourceState, "failure" | "lastEventAt">>>,
  now: number,
): ResourceName[] {
  return RESOURCE_NAMES.filter(
    (name) => states[name].failure !== "" && now - states[name].lastEventAt >= OUTAGE,
  );
}
