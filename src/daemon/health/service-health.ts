import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/logger.ts";
import type { ServiceName } from "../../model/ids.ts";
import type { NodePortAddresses } from "../../model/node.ts";
import { type HttpAnswer, jsonAnswer } from "../http/http-answers.ts";
import { formatListenAddress, listenAddress, openHttpServer } from "../http/http-server.ts";
import { RetryingServer } from "../http/retrying-server.ts";

/** A Service with `externalTrafficPolicy: Local` and its healthCheckNodePort. */
export interface ServiceHealth {
  /** 1..65535 */
  readonly port: number;
  /** Distinct endpoints on this node that take new connections. */
  readonly localEndpoints: number;
}

/** What the servers need. */
export interface ServiceHealthOptions {
  /** Whether the proxy is healthy, whatever becomes of the node. */
  readonly isProxyHealthy: () => boolean;
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
  readonly #running = new Map<string, RetryingServer>();
  #wanted: ReadonlyMap<ServiceName, ServiceHealth> = new Map();
  #queue: Promise<void> = Promise.resolve();

  constructor(options: ServiceHealthOptions) {
    this.#options = options;
  }

  /**
   * Makes exactly these Services answer, on these addresses of the node (`["0.0.0.0"]` for all). Counts change at
   * once; servers that are wanted before and after are left alone. Resolves when the others were closed and each new
   * one has been tried once. Never rejects.
   */
  sync(wanted: ReadonlyMap<ServiceName, ServiceHealth>, addresses: readonly string[]): Promise<void> {
    this.#wanted = wanted;
    // One after the other: a port that passes from one Service to another must be closed before it is opened.
    this.#queue = this.#queue.then(() => this.#apply(wanted, addresses));
    return this.#queue;
  }

  /** Closes every server. Never rejects. */
  close(): Promise<void> {
    return this.sync(new Map(), []);
  }

  async #apply(wanted: ReadonlyMap<ServiceName, ServiceHealth>, addresses: readonly string[]): Promise<void> {
    const desired = new Map<string, { service: ServiceName; address: string; port: number }>();
    for (const [service, { port }] of wanted) {
      for (const address of addresses) desired.set(`${service} ${address} ${port}`, { service, address, port });
    }
    const gone = [...this.#running].filter(([key]) => !desired.has(key));
    for (const [key] of gone) this.#running.delete(key);
    await Promise.all(gone.map(([, server]) => server.close()));
    const added = [...desired].filter(([key]) => !this.#running.has(key));
    await Promise.all(added.map(([key, { service, address, port }]) => this.#open(key, service, address, port)));
  }

  #open(key: string, service: ServiceName, address: string, port: number): Promise<void> {
    const { clock, logger, onFailure } = this.#options;
    const listen = listenAddress(address, port);
    const server = new RetryingServer({
      name: `health check of ${service} on ${formatListenAddress(listen)}`,
      address: listen,
      open: (at) => openHttpServer(at, () => () => this.#answer(service), logger),
      clock,
      logger,
      hardFail: false,
      onFailure: (error) => onFailure(service, port, error),
    });
    this.#running.set(key, server);
    return server.start();
  }

  #answer(service: ServiceName): HttpAnswer {
    return serviceHealthAnswer(service, this.#wanted.get(service)?.localEndpoints ?? 0, this.#options.isProxyHealthy());
  }
}

/**
 * The addresses for {@link ServiceHealthServers.sync}: those that serve NodePorts, and every address as soon as one
 * family has them all, since a port cannot be listened on twice.
 */
export function healthCheckAddresses(matched: readonly NodePortAddresses[]): string[] {
  const addresses: string[] = [];
  for (const match of matched) {
    if (match.kind === "all") return ["0.0.0.0"];
    addresses.push(...match.addresses);
  }
  return addresses;
}

/** kube-proxy's answer for a Service: 200 when new connections are welcome here, otherwise 503. */
export function serviceHealthAnswer(service: ServiceName, localEndpoints: number, proxyHealthy: boolean): HttpAnswer {
  const [namespace = "", name = ""] = service.split("/");
  const body = { service: { namespace, name }, localEndpoints, serviceProxyHealthy: proxyHealthy };
  return jsonAnswer(JSON.stringify(body, null, "\t"), localEndpoints > 0 && proxyHealthy ? 200 : 503, {
    "X-Load-Balancing-Endpoint-Weight": String(localEndpoints),
  });
}
