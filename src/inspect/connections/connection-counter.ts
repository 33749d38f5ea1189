import { compareKeys, sortedEntries } from "../../base/first-sorted.ts";
import { addToCount, groupBy } from "../../base/group-by.ts";
import type { AttributedConnection, ConnectionAttribution } from "../../conntrack/connection-attribution.ts";
import { type Flow, type FlowEnd, isTranslated } from "../../kernel/conntrack.ts";
import type { Endpoint } from "../../model/endpoint.ts";
import { compareAddresses } from "../../model/ip.ts";
import type { ServicePort } from "../../model/service-port.ts";
import { type ConntrackTimeouts, type Idleness, idleness } from "./idleness.ts";

/**
 * Maximum number of clients, and of vanished endpoints, to count separately: memory must not grow with the
 * table.
 */
const MOST_CLIENTS = 20_000;
const MOST_VANISHED = 20_000;

/** Maximum number of clients to name for one endpoint. The others are counted. */
const NAMED_CLIENTS = 10;

/** Selects the connections to count. */
export interface ConnectionFilter {
  /** Only connections to terminating or vanished endpoints, with their clients. */
  readonly draining: boolean;
  /** Whether connections to a Service port are counted. */
  readonly isWanted: (port: ServicePort) => boolean;
}

/** The counts of one Service port and endpoint. */
class EndpointCount {
  readonly attributed: AttributedConnection;
  /** Undefined for endpoints beyond the maximum, which are counted together. */
  readonly end: FlowEnd | undefined;
  readonly states = new Map<string, number>();
  readonly clients = new Map<string, number>();
  connections = 0;
  unacknowledged = 0;
  shortestIdle = Number.POSITIVE_INFINITY;
  longestIdle = Number.NEGATIVE_INFINITY;

  constructor(attributed: AttributedConnection, end: FlowEnd | undefined) {
    this.attributed = attributed;
    this.end = end;
  }

  add({ state }: Flow, idle: Idleness | undefined): void {
    this.connections += 1;
    addToCount(this.states, state, 1);
    if (idle === undefined) return;
    this.shortestIdle = Math.min(this.shortestIdle, idle.seconds);
    this.longestIdle = Math.max(this.longestIdle, idle.seconds);
    if (idle.unacknowledged) this.unacknowledged += 1;
  }
}

/**
 * A present endpoint, the text of a vanished one, or a Service port for all vanished ones beyond the maximum.
 */
type CountKey = Endpoint | string | ServicePort;

/**
 * Counts connections by Service port and endpoint. Its memory depends on the objects, not on the connections.
 */
export class ConnectionCounter {
  readonly #attribute: ConnectionAttribution;
  readonly #timeouts: ConntrackTimeouts;
  readonly #filter: ConnectionFilter;
  readonly #counts = new Map<CountKey, EndpointCount>();
  #clients = 0;
  #vanished = 0;
  #unmanaged = 0;

  constructor(attribute: ConnectionAttribution, timeouts: ConntrackTimeouts, filter: ConnectionFilter) {
    this.#attribute = attribute;
    this.#timeouts = timeouts;
    this.#filter = filter;
  }

  add(connection: Flow): void {
    const attributed = this.#attribute(connection);
    if (attributed === undefined) {
      if (isTranslated(connection)) this.#unmanaged += 1;
      return;
    }
    const { port, condition } = attributed;
    const isDraining = condition === "terminating" || condition === "vanished";
    if (!this.#filter.isWanted(port) || (this.#filter.draining && !isDraining)) return;
    const count = this.#countOf(attributed, connection.replySource);
    count.add(connection, idleness(connection, this.#timeouts));
    if (isDraining) this.#addClient(count, connection.client.address);
  }

  /** Returns the counts so far: Services in the order of names, endpoints in that of addresses. */
  report() {
    const ports = groupBy(this.#counts.values(), ({ attributed }) => attributed.port);
    const services = [...ports].map(([port, counts]) => servicePortConnections(port, counts)).sort(byName);
    return {
      services,
      /**
       * Translated connections to no frontend of a Service: those of other software, or of a deleted Service.
       */
      unmanaged: this.#unmanaged,
    };
  }

  #countOf(attributed: AttributedConnection, end: FlowEnd): EndpointCount {
    const { port, endpoint } = attributed;
    const own = endpoint ?? `${port.key} ${end.address} ${end.port}`;
    const isFull = endpoint === undefined && this.#vanished >= MOST_VANISHED;
    const key: CountKey = isFull && !this.#counts.has(own) ? port : own;
    const known = this.#counts.get(key);
    if (known !== undefined) return known;
    if (typeof key === "string") this.#vanished += 1;
    const count = new EndpointCount(attributed, key === port ? undefined : end);
    this.#counts.set(key, count);
    return count;
  }

  #addClient({ clients }: EndpointCount, address: string): void {
    if (!clients.has(address)) {
      if (this.#clients >= MOST_CLIENTS) return;
      this.#clients += 1;
    }
    addToCount(clients, address, 1);
  }
}

/** The tracked connections of this host by Service and endpoint. */
export type ConnectionCounts = ReturnType<ConnectionCounter["report"]>;

/** The connections to one Service port in one family. */
export type ServicePortConnections = Readonly<ReturnType<typeof servicePortConnections>>;

function servicePortConnections(port: ServicePort, counts: readonly EndpointCount[]) {
  const endpoints = counts.map(endpointConnections).sort(byEndpoint);
  return {
    service: port.service.name,
    /** "" for a nameless port. */
    port: port.spec.name,
    family: port.family,
    protocol: port.spec.protocol,
    /** 1..65535 */
    number: port.spec.port,
    connections: endpoints.reduce((sum, { connections }) => sum + connections, 0),
    endpoints,
  };
}

/** The connections to one endpoint of a Service port. */
export type EndpointConnections = Readonly<ReturnType<typeof endpointConnections>>;

function endpointConnections(count: EndpointCount) {
  const { attributed, end, connections, unacknowledged, shortestIdle, longestIdle } = count;
  const { pod = "", nodeName = "" } = attributed.endpoint?.source ?? {};
  const clients = namedClients(count.clients);
  const named = clients.reduce((sum, client) => sum + client.connections, 0);
  const hasClients = clients.length > 0;
  return {
    /** "" for vanished endpoints that are counted together because there are too many. */
    address: end?.address ?? "",
    /** 1..65535, or 0 if `address` is "". */
    port: end?.port ?? 0,
    condition: attributed.condition,
    /** `namespace/name`, "" if unknown. */
    pod,
    /** "" if unknown. */
    node: nodeName,
    connections,
    /** Counts by the state in connection tracking: `established`, `time_wait`; `assured` for UDP. */
    states: Object.fromEntries(sortedEntries(count.states)),
    /** Connections whose last data has not been acknowledged for at least 2 seconds. */
    unacknowledged,
    /** Seconds since the last packet; absent if the kernel does not show it. */
    idleSeconds: longestIdle < 0 ? undefined : { shortest: shortestIdle, longest: longestIdle },
    /** The clients with the most connections; only for terminating and vanished endpoints. */
    clients: hasClients ? clients : undefined,
    /** The number of connections of clients that are not in `clients`. */
    connectionsOfOtherClients: hasClients ? connections - named : undefined,
  };
}

function namedClients(clients: ReadonlyMap<string, number>) {
  return [...clients]
    .map(([address, connections]) => ({ address, connections }))
    .sort((a, b) => b.connections - a.connections || compareAddresses(a.address, b.address))
    .slice(0, NAMED_CLIENTS);
}

function byName(a: ServicePortConnections, b: ServicePortConnections): number {
  return compareKeys([a.service, a.port, a.protocol, a.family], [b.service, b.port, b.protocol, b.family]);
}

/** Endpoints that are counted together come last. */
function byEndpoint(a: EndpointConnections, b: EndpointConnections): number {
  if (a.address === "" || b.address === "") return a.address === "" ? 1 : -1;
  return compareAddresses(a.address, b.address) || a.port - b.port;
}
