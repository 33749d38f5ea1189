import type { Clock } from "../../base/clock.ts";
import { type ByFamily, FAMILIES, type Family } from "../../base/family.ts";
import type { Logger } from "../../base/logger.ts";
import { NamespaceLoggers } from "../../base/namespace-loggers.ts";
import { namespaceOf, type ServiceName } from "../../model/ids.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import { hasFamily } from "../../model/service.ts";
import type { NodeContext } from "../../ruleset/node-context.ts";
import type { SyncSubscriber } from "../../sync/sync-report.ts";
import {
  ConnectionLimit,
  formatListenAddress,
  type HttpAnswer,
  jsonAnswer,
  openHttpServer,
  type SocketAddress,
} from "../http/http-server.ts";
import { type RetryingServer, retryingServer, serverSet } from "../http/retrying-server.ts";

/** A Service with `externalTrafficPolicy: Local` and its healthCheckNodePort. */
export interface ServiceHealth {
  /** 1..65535 */
  readonly port: number;
  /** Number of distinct endpoints on this node that take new connections, for each family of the Service. */
  readonly localEndpoints: Readonly<Partial<Record<Family, number>>>;
}

/** An address of this node on which the health check node ports of one family answer. */
export interface HealthCheckAddress {
  readonly family: Family;
  /** `0.0.0.0` or `::` for every address of the family. */
  readonly address: string;
}

/** Options of {@link serviceHealthServers}. */
export interface ServiceHealthOptions {
  /** Whether the proxy is healthy and serves a family, whatever the state of the node. */
  readonly isProxyHealthy: (family: Family) => boolean;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called once if a port cannot be bound; it is retried in the background. */
  readonly onFailure: (service: ServiceName, port: number, error: unknown) => void;
}

/**
 * Maximum number of open connections of all servers together, as tenants make thousands of Services, and each
 * pod can connect to their ports. Each connection takes 16 kB, and one of the open files of the process.
 */
const MOST_CONNECTIONS_OF_ALL = 4096;

/** Tells load balancers whether this node has endpoints of a Service. */
type ServiceHealthServers = ReturnType<typeof serviceHealthServers>;

/**
 * Tells load balancers whether this node has endpoints of a Service, by a server for each Service and
 * address. Load balancers of several clouds read the status, some also the weight.
 */
export function serviceHealthServers({ isProxyHealthy, clock, logger, onFailure }: ServiceHealthOptions) {
  const serve = serverSet();
  const connections = new ConnectionLimit(MOST_CONNECTIONS_OF_ALL);
  const loggers = new NamespaceLoggers(clock, logger);
  let current: ReadonlyMap<ServiceName, ServiceHealth> = new Map();

  const answer = (service: ServiceName, family: Family): HttpAnswer => {
    const localEndpoints = current.get(service)?.localEndpoints[family] ?? 0;
    return serviceHealthAnswer(service, localEndpoints, isProxyHealthy(family));
  };
  const server = (service: ServiceName, family: Family, address: SocketAddress): RetryingServer => {
    const own = loggers.of(namespaceOf(service));
    return retryingServer({
      name: `health check of ${service} on ${formatListenAddress(address)}`,
      address,
      open: () => openHttpServer(address, () => () => answer(service, family), own, connections),
      clock,
      logger: own,
      onFailure: (error) => onFailure(service, address.port, error),
    });
  };
  /**
   * Serves exactly these Services, each on the addresses of its families. Changed counts take effect
   * immediately. Resolves when all other servers are closed and each new one has been tried once. Never
   * rejects.
   */
  const sync = (
    wanted: ReadonlyMap<ServiceName, ServiceHealth>,
    addresses: readonly HealthCheckAddress[],
  ): Promise<void> => {
    current = wanted;
    const servers = new Map<string, () => RetryingServer>();
    for (const [service, { port, localEndpoints }] of wanted) {
      for (const { family, address } of addresses) {
        if (localEndpoints[family] === undefined) continue;
        const make = () => server(service, family, { host: address, port });
        servers.set(`${service} ${address} ${port}`, make);
      }
    }
    return serve(servers);
  };
  return {
    sync,
    /** Closes every server. Never rejects. */
    close: () => sync(new Map(), []),
  };
}

/** Every address of a family. */
const WILDCARD: ByFamily<string> = { ip: "0.0.0.0", ip6: "::" };

/** Returns the addresses at which health check node ports listen: those that serve NodePorts. */
export function healthCheckAddresses(nodeContext: NodeContext): HealthCheckAddress[] {
  return nodeContext.flatMap(({ family, nodePorts }) => {
    const addresses = nodePorts.kind === "all" ? [WILDCARD[family]] : nodePorts.addresses;
    return addresses.map((address) => ({ family, address }));
  });
}

/** Answers for a Service as kube-proxy does: 200 if this node can take new connections, otherwise 503. */
export function serviceHealthAnswer(
  service: ServiceName,
  localEndpoints: number,
  proxyHealthy: boolean,
): HttpAnswer {
  const [namespace = "", name = ""] = service.split("/");
  const body = { service: { namespace, name }, localEndpoints, serviceProxyHealthy: proxyHealthy };
  return jsonAnswer(JSON.stringify(body, null, "\t"), localEndpoints > 0 && proxyHealthy ? 200 : 503, {
    "X-Load-Balancing-Endpoint-Weight": String(localEndpoints),
  });
}

/** Counts the endpoints of a Service; undefined for one without a health check node port. */
export function serviceHealthOf(cache: ObjectCache, name: ServiceName): ServiceHealth | undefined {
  const service = cache.service(name);
  if (service === undefined || service.healthCheckNodePort === 0) return undefined;
  const families = FAMILIES.filter((family) => hasFamily(service, family));
  const localEndpoints = Object.fromEntries(
    families.map((family) => [family, countLocalEndpoints(cache, name, family)]),
  );
  return { port: service.healthCheckNodePort, localEndpoints };
}

/**
 * Counts distinct ready addresses on this node in one family. Each family has its own count, as in
 * kube-proxy.
 */
function countLocalEndpoints(cache: ObjectCache, name: ServiceName, family: Family): number {
  const local = cache
    .slices(name)
    .filter((slice) => slice.family === family)
    .flatMap((slice) => [...slice.endpoints])
    .filter((endpoint) => endpoint.ready && endpoint.nodeName === cache.node.name);
  return new Set(local.map(({ address }) => address)).size;
}

/** Updates the health check node ports after each sync that changed an answer or their addresses. */
export function serviceHealthSubscriber(
  cache: ObjectCache,
  servers: Pick<ServiceHealthServers, "sync">,
): SyncSubscriber {
  const wanted = new Map<ServiceName, ServiceHealth>();
  let known = "";
  return {
    synced({ rendered, nodeContext }) {
      const addresses = healthCheckAddresses(nodeContext);
      const text = JSON.stringify(addresses);
      let isChanged = text !== known;
      known = text;
      for (const name of rendered) {
        const after = serviceHealthOf(cache, name);
        if (JSON.stringify(wanted.get(name)) === JSON.stringify(after)) continue;
        isChanged = true;
        if (after === undefined) wanted.delete(name);
        else wanted.set(name, after);
      }
      if (isChanged) void servers.sync(wanted, addresses);
    },
  };
}
