import { type ConntrackTimeouts, type FlowEnd, idleness, type TrackedConnection } from "../../kernel/connections.ts";
import type { Endpoint } from "../../model/endpoint.ts";
import { compareAddresses } from "../../model/ip.ts";
import type { ServicePort } from "../../model/service-port.ts";
import type { AttributedConnection, ConnectionAttribution } from "./attribution.ts";
import type { ClientConnections, ConnectionReport, EndpointConnections, ServicePortConnections } from "./report.ts";

/** The most clients, and the most vanished endpoints, that are told apart: memory must not grow with the table. */
const MOST_CLIENTS = 20_000;
const MOST_VANISHED = 20_000;

/** The clients of an endpoint that a report names; the others are counted. */
const NAMED_CLIENTS = 10;

/** Which connections to count. */
export interface ConnectionFilter {
  /** Only those to endpoints that terminate or vanished, and with the clients' names. */
  readonly draining: boolean;
  /** Only those to these Service ports. */
  readonly isWanted: (port: ServicePort) => boolean;
}

/** The counts of one Service port and endpoint. */
class EndpointCount {
  readonly attributed: AttributedConnection;
  /** Undefined for the endpoints that are not told apart. */
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

  add({ state }: TrackedConnection, idle: ReturnType<typeof idleness>): void {
    this.connections += 1;
    this.states.set(state, (this.states.get(state) ?? 0) + 1);
    if (idle === undefined) return;
    this.shortestIdle = Math.min(this.shortestIdle, idle.seconds);
    this.longestIdle = Math.max(this.longestIdle, idle.seconds);
    if (idle.unacknowledged) this.unacknowledged += 1;
  }
}

/** An endpoint that is there, a text for one that vanished, or a Service port for all further ones. */
type CountKey = Endpoint | string | ServicePort;

/** Counts connections by Service port and endpoint. Its memory is bounded by the objects, not by the connections. */
export class ConnectionCounter {
  readonly #attribution: ConnectionAttribution;
  readonly #timeouts: ConntrackTimeouts;
  readonly #filter: ConnectionFilter;
  readonly #counts = new Map<CountKey, EndpointCount>();
  #clients = 0;
  #vanished = 0;
  #unmanaged = 0;

  constructor(attribution: ConnectionAttribution, timeouts: ConntrackTimeouts, filter: ConnectionFilter) {
    this.#attribution = attribution;
    this.#timeouts = timeouts;
    this.#filter = filter;
  }

  /** Counts one connection. */
  add(connection: TrackedConnection): void {
    const attributed = this.#attribution.of(connection);
    if (attributed === undefined) {
      this.#unmanaged += 1;
      return;
    }
    const { port, condition } = attributed;
    const isDraining = condition === "terminating" || condition === "vanished";
    if (!this.#filter.isWanted(port) || (this.#filter.draining && !isDraining)) return;
    const count = this.#countOf(attributed, connection.replySource);
    count.add(connection, idleness(connection, this.#timeouts));
    if (isDraining) this.#addClient(count, connection.client.address);
  }

  /** What was counted so far: Services by name, endpoints by address. */
  report(): ConnectionReport {
    const ports = new Map<ServicePort, EndpointCount[]>();
    for (const count of this.#counts.values()) {
      const { port } = count.attributed;
      const counts = ports.get(port);
      if (counts === undefined) ports.set(port, [count]);
      else counts.push(count);
    }
    const services = [...ports].map(([port, counts]) => servicePortConnections(port, counts)).sort(byName);
    return { services, unmanaged: this.#unmanaged };
  }

  #countOf(attributed: AttributedConnection, end: FlowEnd): EndpointCount {
    const { port, endpoint } = attributed;
    const key = endpoint ?? this.#vanishedKey(port, end);
    const known = this.#counts.get(key);
    if (known !== undefined) return known;
    const kept = { address: copied(end.address), port: end.port };
    const count = new EndpointCount(attributed, key === port ? undefined : kept);
    this.#counts.set(key, count);
    return count;
  }

  /** The Service port itself when too many vanished endpoints are told apart already. */
  #vanishedKey(port: ServicePort, end: FlowEnd): CountKey {
    const key = `${port.key} ${end.address} ${end.port}`;
    if (this.#counts.has(key)) return key;
    if (this.#vanished >= MOST_VANISHED) return port;
    this.#vanished += 1;
    return key;
  }

  #addClient({ clients }: EndpointCount, address: string): void {
    const known = clients.get(address);
    if (known === undefined && this.#clients >= MOST_CLIENTS) return;
    if (known === undefined) this.#clients += 1;
    clients.set(known === undefined ? copied(address) : address, (known ?? 0) + 1);
  }
}

/** A copy in memory of its own: V8 makes parts of a text views that keep the whole chunk of output alive. */
function copied(text: string): string {
  return Buffer.from(text, "latin1").toString("latin1");
}

function servicePortConnections(port: ServicePort, counts: readonly EndpointCount[]): ServicePortConnections {
  const endpoints = counts.map(endpointConnections).sort(byEndpoint);
  return {
    service: port.service.name,
    port: port.spec.name,
    family: port.family,
    protocol: port.spec.protocol,
    number: port.spec.port,
    connections: endpoints.reduce((sum, { connections }) => sum + connections, 0),
    endpoints,
  };
}

function endpointConnections(count: EndpointCount): EndpointConnections {
  const { attributed, end, connections, unacknowledged, shortestIdle, longestIdle } = count;
  const { pod = "", nodeName = "" } = attributed.endpoint?.source ?? {};
  const clients = namedClients(count.clients);
  const named = clients.reduce((sum, client) => sum + client.connections, 0);
  return {
    address: end?.address ?? "",
    port: end?.port ?? 0,
    condition: attributed.condition,
    pod,
    node: nodeName,
    connections,
    states: Object.fromEntries([...count.states].sort(([a], [b]) => (a < b ? -1 : 1))),
    unacknowledged,
    ...(longestIdle < 0 ? {} : { idleSeconds: { shortest: shortestIdle, longest: longestIdle } }),
    ...(clients.length === 0 ? {} : { clients, connectionsOfOtherClients: connections - named }),
  };
}

function namedClients(clients: ReadonlyMap<string, number>): ClientConnections[] {
  return [...clients]
    .map(([address, connections]) => ({ address, connections }))
    .sort((a, b) => b.connections - a.connections || compareAddresses(a.address, b.address))
    .slice(0, NAMED_CLIENTS);
}

function byName(a: ServicePortConnections, b: ServicePortConnections): number {
  return compare([a.service, a.port, a.protocol, a.family], [b.service, b.port, b.protocol, b.family]);
}

function compare(a: readonly string[], b: readonly string[]): number {
  const at = a.findIndex((text, index) => text !== b[index]);
  return at === -1 ? 0 : (a[at] ?? "") < (b[at] ?? "") ? -1 : 1;
}

/** Those that are not told apart come last. */
function byEndpoint(a: EndpointConnections, b: EndpointConnections): number {
  if (a.address === "" || b.address === "") return a.address === b.address ? 0 : a.address === "" ? 1 : -1;
  return compareAddresses(a.address, b.address) || a.port - b.port;
}
