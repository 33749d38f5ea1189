import type { Family } from "../../base/family.ts";
import type { Protocol, ServiceName } from "../../model/ids.ts";
import type { EndpointCondition } from "./attribution.ts";

/** The connections of one client address. */
export interface ClientConnections {
  readonly address: string;
  readonly connections: number;
}

/** The connections to one endpoint of a Service port. */
export interface EndpointConnections {
  /** "" for the vanished endpoints that are not told apart: there are too many. */
  readonly address: string;
  /** 1..65535, or 0 where `address` is "". */
  readonly port: number;
  readonly condition: EndpointCondition;
  /** `namespace/name`, "" when not known. */
  readonly pod: string;
  /** "" when not known. */
  readonly node: string;
  readonly connections: number;
  /** How many are in which state of the connection tracker: `established`, `time_wait`, of UDP `assured`. */
  readonly states: Readonly<Record<string, number>>;
  /** How many have waited for an acknowledgement of their last data for at least 2 seconds. */
  readonly unacknowledged: number;
  /** Time since the last packet; absent where the kernel does not tell. */
  readonly idleSeconds?: { readonly shortest: number; readonly longest: number };
  /** Of an endpoint that terminates or vanished: the clients with the most connections. */
  readonly clients?: readonly ClientConnections[];
  /** Beside `clients`: how many connections belong to clients that are not named there. */
  readonly connectionsOfOtherClients?: number;
}

/** The connections to one Service port in one family. */
export interface ServicePortConnections {
  readonly service: ServiceName;
  /** "" for a nameless port. */
  readonly port: string;
  readonly family: Family;
  readonly protocol: Protocol;
  /** 1..65535 */
  readonly number: number;
  readonly connections: number;
  readonly endpoints: readonly EndpointConnections[];
}

/** The tracked connections of this host, by Service and endpoint. */
export interface ConnectionReport {
  readonly services: readonly ServicePortConnections[];
  /** Connections whose destination was translated, but to no frontend of a Service: other software's, or a deleted Service's. */
  readonly unmanaged: number;
}
