import type { Clock } from "../../base/clock.ts";
import type { ByFamily, Family } from "../../base/family.ts";
import type { Logger } from "../../base/logger.ts";
import type { ServiceName } from "../../model/ids.ts";
import type { NodeContext } from "../../ruleset/node-context.ts";
import {
  formatListenAddress,
  type HttpAnswer,
  jsonAnswer,
  openHttpServer,
  type SocketAddress,
} from "../http/http-server.ts";
import { RetryingServer, ServerSet } from "../http/retrying-server.ts";

/** A Service with `externalTrafficPolicy: Local` and its healthCheckNodePort. */
export interface ServiceHealth {
  /** 1..65535 */
  readonly port: number;
  /** For each family of the Service: distinct endpoints on this node that take new connections. */
  readonly localEndpoints: Readonly<Partial<Record<Family, number>>>;
}

/** An address of this node on which the health check node ports of one family answer. */
export interface HealthCheckAddress {
  readonly family: Family;
  /** `0.0.0.0` or `::` for every address of the family. */
  readonly address: string;
}

/** What the servers need. */
export interface ServiceHealthOptions {
  /** Whether the proxy is healthy and serves a family, whatever becomes of the node. */
  readonly isProxyHealthy: (family: Family) => boolean;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Told once of a port that cannot be listened on; it is tried again in the background. */
  readonly onFailure: (service: ServiceName, port: number, error: unknown) => void;
}

/**
 * The servers that tell load balancers whether this node has endpoints of a Service: one for each Service and
 * address. Load balancers of several clouds read the status, some also the weight.
 */
export class ServiceHealthServers {
  readonly #options: ServiceHealthOptions;
  readonly #servers = new ServerSet();
  #wanted: ReadonlyMap<ServiceName, ServiceHealth> = new Map();

  constructor(options: ServiceHealthOptions) {
    this.#options = options;
  }

  /**
   * Makes exactly these Services answer, each on the addresses of its families; counts change at once. Resolves when
   * servers that are no longer wanted were closed and each new one has been tried once. Never rejects.
   */
  sync(
    wanted: ReadonlyMap<ServiceName, ServiceHealth>,
    addresses: readonly HealthCheckAddress[],
  ): Promise<void> {
    this.#wanted = wanted;
    const servers = new Map<string, () => RetryingServer>();
    for (const [service, { port, localEndpoints }] of wanted) {
      for (const { family, address } of addresses) {
        if (localEndpoints[family] === undefined) continue;
        servers.set(`${service} ${address} ${port}`, () =>
          this.#server(service, family, { host: address, port }),
        );
      }
    }
    return this.#servers.sync(servers);
  }

  /** Closes every server. Never rejects. */
  close(): Promise<void> {
    return this.sync(new Map(), []);
  }

  #server(service: ServiceName, family: Family, address: SocketAddress): RetryingServer {
    const { clock, logger, onFailure } = this.#options;
    return new RetryingServer({
      name: `health check of ${service} on ${formatListenAddress(address)}`,
      address,
      open: (at) => openHttpServer(at, () => () => this.#answer(service, family), logger),
      clock,
      logger,
      onFailure: (error) => onFailure(service, address.port, error),
    });
  }

  #answer(service: ServiceName, family: Family): HttpAnswer {
    const localEndpoints = this.#wanted.get(service)?.localEndpoints[family] ?? 0;
    return serviceHealthAnswer(service, localEndpoints, this.#options.isProxyHealthy(family));
  }
}

/** Every address of a family. */
const WILDCARD: ByFamily<string> = { ip: "0.0.0.0", ip6: "::" };

/** The addresses for {@link ServiceHealthServers.sync}: those that serve NodePorts, family by family. */
export function healthCheckAddresses(nodeContext: NodeContext): HealthCheckAddress[] {
  return nodeContext.flatMap(({ family, nodePorts }) => {
    const addresses = nodePorts.kind === "all" ? [WILDCARD[family]] : nodePorts.addresses;
    return addresses.map((address) => ({ family, address }));
  });
}

/** kube-proxy's answer for a Service: 200 when new connections are welcome here, otherwise 503. */
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
