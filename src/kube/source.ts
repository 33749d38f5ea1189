import type { EndpointSlice } from "../model/endpoint-slice.ts";
import type { Node, ServiceCIDR } from "../model/node.ts";
import type { Service } from "../model/service.ts";

/** The resources that a service proxy looks at, by the names they have in API paths. */
export type ResourceName = "services" | "endpointslices" | "nodes" | "servicecidrs";

/** All of them, in the order in which they are shown. */
export const RESOURCE_NAMES: readonly ResourceName[] = ["services", "endpointslices", "nodes", "servicecidrs"];

/**
 * Takes the objects of one resource. `key` is `namespace/name`, or `name` for what has no namespace. Calls are
 * synchronous and come in order; none comes after the source was stopped. A key's object that was deleted and
 * made again (another uid) gives `onDelete`, then `onUpsert` without a previous one.
 */
export interface SourceHandler<T> {
  /** `object` is new (no `previous`) or changed. */
  onUpsert(key: string, object: T, previous: T | undefined): void;
  /** `previous` is gone, or has become invalid. */
  onDelete(key: string, previous: T): void;
  /** The object under `key` cannot be used and counts as absent; `error` says why. Once for each version of it. */
  onInvalid(key: string, error: unknown): void;
  /** Everything there is has been given: after the first complete list, and after every later one. */
  onSynced(): void;
}

/** A handler for each resource. */
export interface SourceHandlers {
  readonly services: SourceHandler<Service>;
  readonly endpointslices: SourceHandler<EndpointSlice>;
  readonly nodes: SourceHandler<Node>;
  readonly servicecidrs: SourceHandler<ServiceCIDR>;
}

/** What a source heard, for counters. */
export type SourceEventKind = "added" | "modified" | "deleted" | "bookmark";

/** What went wrong with a source, for counters. */
export type SourceErrorKind =
  /** No connection, or it broke. */
  | "connection"
  /** Silence beyond a deadline. */
  | "timeout"
  /** HTTP 401. */
  | "unauthorized"
  /** HTTP 403. */
  | "forbidden"
  /** HTTP 410, or an ERROR event that says so: the version we know is too old. */
  | "gone"
  /** HTTP 429. */
  | "throttled"
  /** HTTP 5xx, other statuses, other ERROR events. */
  | "server"
  /** What came is not what was asked for: broken JSON, a truncated line, an unreadable file. */
  | "parse"
  /** A watch that the server closed at once, having said nothing. */
  | "short-watch"
  /** A single object that cannot be used. */
  | "invalid-object"
  /** The consumer threw. */
  | "handler";

/** How a source of one resource is doing. Times are milliseconds since 1970, 0 for never. */
export interface SourceState {
  /** Everything has been given once. Stays true. */
  readonly synced: boolean;
  /** The resource is not served here: synced with nothing, looked at again from time to time. */
  readonly absent: boolean;
  /** Valid objects held. */
  readonly objects: number;
  /** When it was last heard from: a list, an event or a bookmark. */
  readonly lastEventAt: number;
  /** When a list was last complete. */
  readonly lastSyncAt: number;
  /** Complete lists after the first. */
  readonly relists: number;
  readonly events: Readonly<Record<SourceEventKind, number>>;
  readonly errors: Readonly<Record<SourceErrorKind, number>>;
  /** Why it is not connected now, "" when it is. */
  readonly failure: string;
}

/** Where objects come from: an API server, or files. */
export interface ObjectSource {
  /** Begins to call the handlers it was made with. Once. */
  start(): void;
  /** Silent and final: no handler is called after it. */
  stop(): void;
  states(): Readonly<Record<ResourceName, SourceState>>;
}

/** The state of a source that has not started. */
export function initialState(): SourceState {
  return {
    synced: false,
    absent: false,
    objects: 0,
    lastEventAt: 0,
    lastSyncAt: 0,
    relists: 0,
    events: { added: 0, modified: 0, deleted: 0, bookmark: 0 },
    errors: {
      connection: 0,
      timeout: 0,
      unauthorized: 0,
      forbidden: 0,
      gone: 0,
      throttled: 0,
      server: 0,
      parse: 0,
      "short-watch": 0,
      "invalid-object": 0,
      handler: 0,
    },
    failure: "",
  };
}
