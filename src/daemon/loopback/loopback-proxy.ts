import { createServer, type Server, type Socket } from "node:net";
import type { Clock } from "../../base/clock.ts";
import { AppError, messageOf } from "../../base/errors.ts";
import type { ByFamily, Family } from "../../base/family.ts";
import type { Logger } from "../../base/logger.ts";
import { socketText } from "../../base/text.ts";
import { systemErrorCode } from "../../kernel/host.ts";
import type { ServiceName } from "../../model/ids.ts";
import type { FamilyState } from "../../ruleset/family-state.ts";
import { parseFrontendKey } from "../../ruleset/keys.ts";
import type { NodeContext } from "../../ruleset/node-context.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import { NO_ENDPOINTS } from "../../ruleset/sets.ts";
import type { OpenServer, SocketAddress } from "../http/http-server.ts";
import { RetryingServer, ServerSet } from "../http/retrying-server.ts";
import { MOST_CONNECTIONS, type RelayTarget, relay } from "./relay.ts";

/** The codes of system errors for a host without a route. */
const NO_ROUTE: readonly string[] = ["ENETUNREACH", "EHOSTUNREACH", "EADDRNOTAVAIL"];

/** A NodePort that loopback serves. */
export interface LoopbackNodePort {
  readonly family: Family;
  /** 1..65535 */
  readonly port: number;
  readonly service: ServiceName;
}

/** What becomes of connections; for metrics. */
export interface LoopbackObserver {
  /** The listeners of a family that listen, and the connections of all that are open. */
  changed(listeners: ByFamily<number>, connections: number): void;
  /** A port cannot be listened on; told once until it can be. */
  bindFailed(nodePort: LoopbackNodePort, error: unknown): void;
  /** A connection was not served: too many of them, or no endpoint could be reached. */
  refused(nodePort: LoopbackNodePort, reason: "limit" | "unreachable"): void;
}

/** What a {@link LoopbackProxy} is made of. */
export interface LoopbackProxyParts {
  /** Where each family's NodePorts are listened on: 127.0.0.1 and ::1. */
  readonly addresses: ByFamily<string>;
  /** Where each family's connections go, by the kernel's rules. */
  readonly targets: ByFamily<string>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly observer: LoopbackObserver;
  /** Most connections at a time. */
  readonly maxConnections?: number;
}

/**
 * Serves TCP NodePorts on the node's loopback addresses, which the kernel cannot without `route_localnet`. It accepts
 * and relays; which endpoint gets a connection is up to the kernel's rules. A listener goes with its NodePort, its
 * connections stay until they end, as those through the kernel do.
 * Source: KEP-6032, https://github.com/kubernetes/kubernetes/pull/138427
 */
export class LoopbackProxy {
  readonly #parts: LoopbackProxyParts;
  readonly #servers = new ServerSet();
  readonly #clients = new Set<Socket>();
  readonly #listeners = { ip: 0, ip6: 0 };
  #hasNoRoute = false;

  constructor(parts: LoopbackProxyParts) {
    this.#parts = parts;
  }

  /**
   * Listens on exactly these NodePorts. Resolves when listeners that are no longer wanted were closed and each new one
   * has been tried once. Never rejects.
   */
  sync(wanted: readonly LoopbackNodePort[]): Promise<void> {
    return this.#servers.sync(
      new Map(wanted.map((nodePort) => [keyOf(nodePort), () => this.#server(nodePort)])),
    );
  }

  /** Closes every listener and resets every connection. Never rejects. */
  async close(): Promise<void> {
    await this.sync([]);
    for (const client of this.#clients) client.resetAndDestroy();
  }

  #server(nodePort: LoopbackNodePort): RetryingServer {
    const { addresses, clock, logger, observer } = this.#parts;
    const address = { host: addresses[nodePort.family], port: nodePort.port };
    return new RetryingServer({
      name: `NodePort of ${nodePort.service}`,
      address,
      open: () => this.#listen(address, nodePort),
      clock,
      logger,
      onFailure: (error) => observer.bindFailed(nodePort, error),
    });
  }

  #listen(address: SocketAddress, nodePort: LoopbackNodePort): Promise<OpenServer> {
    const options = { allowHalfOpen: true, pauseOnConnect: true };
    const server = createServer(options, (client) => this.#accept(client, nodePort));
    return new Promise((resolve, reject) => {
      server.once("error", (error) => reject(bindError(address, error)));
      server.listen({ port: address.port, host: address.host }, () => {
        server.removeAllListeners("error");
        // Accepting may fail later, when the process is out of files; the listener goes on by itself.
        server.on("error", (error) =>
          this.#parts.logger.warn({ error: error.message }, "cannot accept a connection"),
        );
        resolve({ port: address.port, close: () => this.#stopListening(server, nodePort) });
        this.#listeners[nodePort.family]++;
        this.#changed();
      });
    });
  }

  #accept(client: Socket, nodePort: LoopbackNodePort): void {
    const { maxConnections = MOST_CONNECTIONS, observer, targets } = this.#parts;
    if (this.#clients.size >= maxConnections) {
      client.resetAndDestroy();
      observer.refused(nodePort, "limit");
      return;
    }
    this.#clients.add(client);
    const target: RelayTarget = { host: targets[nodePort.family], port: nodePort.port };
    const relayed = relay(client, target, (error) => {
      this.#reportUnreachable(nodePort, target, error);
      observer.refused(nodePort, "unreachable");
    });
    this.#changed();
    void relayed.then(() => {
      this.#clients.delete(client);
      this.#changed();
    });
  }

  /** Endpoints that do not answer are for others to report; a host without a route serves no loopback NodePort at all. */
  #reportUnreachable(nodePort: LoopbackNodePort, { host }: RelayTarget, error: Error): void {
    const { logger } = this.#parts;
    const fields = { ...nodePort, error: messageOf(error) };
    if (!NO_ROUTE.includes(systemErrorCode(error)) || this.#hasNoRoute) {
      logger.debug(fields, "no endpoint reached for a loopback NodePort");
      return;
    }
    this.#hasNoRoute = true;
    const hint = `this host needs a route to ${host}, as for cluster IPs: a default route is enough`;
    logger.warn({ ...fields, hint }, "no route for loopback NodePorts (logged once)");
  }

  /** Connections that are open go on. */
  async #stopListening(server: Server, { family }: LoopbackNodePort): Promise<void> {
    server.close();
    this.#listeners[family]--;
    this.#changed();
  }

  #changed(): void {
    this.#parts.observer.changed({ ...this.#listeners }, this.#clients.size);
  }
}

function keyOf({ family, port, service }: LoopbackNodePort): string {
  return `${family} ${port} ${service}`;
}

function bindError({ host = "", port }: SocketAddress, cause: NodeJS.ErrnoException): AppError {
  const hint = cause.code === "EADDRINUSE" ? "another process on this node has the port" : undefined;
  const message = `cannot listen on ${socketText(host, port)}: ${cause.message}`;
  return new AppError("HOST", message, hint === undefined ? { cause } : { cause, hint });
}

/** The TCP NodePorts that have endpoints, of the families whose loopback address serves NodePorts. */
export function wantedNodePorts(state: RulesetState, nodeContext: NodeContext): LoopbackNodePort[] {
  return nodeContext
    .filter(({ loopbackNodePorts }) => loopbackNodePorts)
    .flatMap(({ family }) => {
      const familyState = state.families[family];
      return [...(familyState?.nodePorts ?? [])].flatMap((key) => {
        const { protocol, port } = parseFrontendKey(key);
        const owner = protocol === "tcp" ? familyState?.ownerOf(key) : undefined;
        return owner === undefined || isRefused(familyState, key)
          ? []
          : [{ family, port, service: owner.service.name }];
      });
    });
}

/** Without endpoints, or by a policy of Local with endpoints on other nodes only. */
function isRefused(state: FamilyState | undefined, key: string): boolean {
  return state?.table.sets.get(NO_ENDPOINTS)?.elements.has(key) ?? false;
}
