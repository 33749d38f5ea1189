import { connect, createServer, type Socket } from "node:net";
import type { Clock } from "../../base/clock.ts";
import { messageOf } from "../../base/errors.ts";
import type { ByFamily, Family } from "../../base/family.ts";
import type { Logger } from "../../base/logger.ts";
import { NamespaceLoggers } from "../../base/namespace-loggers.ts";
import { systemErrorCode } from "../../kernel/host.ts";
import { namespaceOf, type ServiceName } from "../../model/ids.ts";
import type { FamilyState } from "../../ruleset/family-state.ts";
import { parseFrontendKey } from "../../ruleset/keys.ts";
import type { NodeContext } from "../../ruleset/node-context.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import { NO_ENDPOINTS } from "../../ruleset/sets.ts";
import { listen, type OpenServer, type SocketAddress } from "../http/http-server.ts";
import { type RetryingServer, retryingServer, serverSet } from "../http/retrying-server.ts";

/** Codes of system errors for a host without a route. */
const NO_ROUTE: readonly string[] = ["ENETUNREACH", "EHOSTUNREACH", "EADDRNOTAVAIL"];

/** A NodePort that is served at a loopback address. */
export interface LoopbackNodePort {
  readonly family: Family;
  /** 1..65535 */
  readonly port: number;
  readonly service: ServiceName;
}

/** The address of each family to listen on. */
const ADDRESSES: ByFamily<string> = { ip: "127.0.0.1", ip6: "::1" };

/** Parts of a {@link loopbackProxy}. */
export interface LoopbackProxyParts {
  /** The address of each family to connect to, for which the kernel's rules choose an endpoint. */
  readonly targets: ByFamily<string>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** A port cannot be bound; called once until it can be. */
  readonly onBindFailed: (nodePort: LoopbackNodePort, error: unknown) => void;
  /** Maximum number of open connections. */
  readonly maxConnections?: number;
}

/** A relay for NodePorts at loopback addresses. */
export type LoopbackProxy = Readonly<ReturnType<typeof loopbackProxy>>;

/**
 * Serves TCP NodePorts at the node's loopback addresses, which the kernel cannot do without `route_localnet`.
 * It relays connections, for which the kernel's rules choose endpoints. A listener closes with its NodePort;
 * its connections continue until they end, as in the kernel.
 * Source: KEP-6032, https://github.com/kubernetes/kubernetes/pull/138427
 */
export function loopbackProxy(parts: LoopbackProxyParts) {
  const { targets, clock, logger, onBindFailed, maxConnections = MOST_CONNECTIONS } = parts;
  const serve = serverSet();
  const clients = new Set<Socket>();
  const loggers = new NamespaceLoggers(clock, logger);
  const listeners = { ip: 0, ip6: 0 };
  const refused = { limit: 0, unreachable: 0 };
  let hasNoRoute = false;

  /** Warns only about a missing route, without which no loopback NodePort works. */
  const reportUnreachable = (nodePort: LoopbackNodePort, host: string, error: Error) => {
    const fields = { ...nodePort, error: messageOf(error) };
    if (!NO_ROUTE.includes(systemErrorCode(error)) || hasNoRoute) {
      logger.debug(fields, "cannot reach an endpoint of a loopback NodePort");
      return;
    }
    hasNoRoute = true;
    const hint = `this host needs a route to ${host}, as for cluster IPs: a default route is enough`;
    logger.warn({ ...fields, hint }, "no route for loopback NodePorts (logged once)");
  };

  const accept = (client: Socket, nodePort: LoopbackNodePort) => {
    if (clients.size >= maxConnections) {
      client.resetAndDestroy();
      refused.limit++;
      return;
    }
    clients.add(client);
    const host = targets[nodePort.family];
    const relayed = relay(client, { host, port: nodePort.port }, (error) => {
      reportUnreachable(nodePort, host, error);
      refused.unreachable++;
    });
    void relayed.then(() => clients.delete(client));
  };

  const open = async (address: SocketAddress, nodePort: LoopbackNodePort): Promise<OpenServer> => {
    const options = { allowHalfOpen: true, pauseOnConnect: true };
    const server = createServer(options, (client) => accept(client, nodePort));
    await listen(server, address, "another process on this node has the port", (error) =>
      logger.warn({ error: error.message }, "cannot accept a connection"),
    );
    listeners[nodePort.family]++;
    return {
      /** Open connections continue. */
      async close() {
        server.close();
        listeners[nodePort.family]--;
      },
    };
  };

  const newServer = (nodePort: LoopbackNodePort): RetryingServer => {
    const address = { host: ADDRESSES[nodePort.family], port: nodePort.port };
    return retryingServer({
      name: `NodePort of ${nodePort.service}`,
      address,
      open: () => open(address, nodePort),
      clock,
      logger: loggers.of(namespaceOf(nodePort.service)),
      onFailure: (error) => onBindFailed(nodePort, error),
    });
  };

  /**
   * Listens on exactly these NodePorts. Resolves when all other listeners are closed and each new one has
   * been tried once. Never rejects.
   */
  const sync = (wanted: readonly LoopbackNodePort[]): Promise<void> =>
    serve(new Map(wanted.map((nodePort) => [keyOf(nodePort), () => newServer(nodePort)])));

  return {
    /** Open listeners. */
    listeners: listeners as ByFamily<number>,
    /** Connections that were not served: there are too many, or no endpoint could be reached. */
    refused: refused as Readonly<typeof refused>,
    /** Open connections of all listeners. */
    get connections(): number {
      return clients.size;
    },
    sync,
    /** Closes all listeners and resets all connections. Never rejects. */
    async close(): Promise<void> {
      await sync([]);
      for (const client of clients) client.resetAndDestroy();
    },
  };
}

function keyOf({ family, port, service }: LoopbackNodePort): string {
  return `${family} ${port} ${service}`;
}

/** Returns the TCP NodePorts with endpoints, of families that serve NodePorts at their loopback address. */
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

/** Whether a NodePort has no endpoints, or by policy Local none on this node. */
function isRefused(state: FamilyState | undefined, key: string): boolean {
  return state?.table.sets.get(NO_ENDPOINTS)?.elements.has(key) ?? false;
}

/** Maximum number of relayed connections. Each takes two sockets and up to 0.1 MB. */
const MOST_CONNECTIONS = 4096;

/** Maximum time until a target accepts. Milliseconds. */
const CONNECT_TIMEOUT = 10_000;

/** Time without data after which the kernel probes the other side. Milliseconds. */
const KEEPALIVE_DELAY = 30_000;

/**
 * Relays an accepted connection to a target until both sides are closed. It passes on a half-close, a reset,
 * and the backpressure of a slow reader. If the target cannot be reached, it resets the client, as an
 * accepted connection can no longer be refused.
 * @param client paused, with half-open allowed
 * @param onRefused called if the target cannot be reached
 * @returns resolves when both connections are closed; never rejects
 */
function relay(client: Socket, target: SocketAddress, onRefused: (error: Error) => void): Promise<void> {
  const server = connect({ ...target, allowHalfOpen: true, noDelay: true, keepAlive: true });
  server.setKeepAlive(true, KEEPALIVE_DELAY);
  client.setKeepAlive(true, KEEPALIVE_DELAY);
  client.setNoDelay(true);
  server.setTimeout(CONNECT_TIMEOUT, () =>
    server.destroy(new Error(`no answer within ${CONNECT_TIMEOUT / 1000} s`)),
  );
  let isConnected = false;
  server.once("connect", () => {
    isConnected = true;
    server.setTimeout(0);
    client.pipe(server);
    server.pipe(client);
  });
  server.on("error", (error) => {
    if (!isConnected) onRefused(error);
    client.resetAndDestroy();
  });
  client.on("error", () => server.resetAndDestroy());
  return Promise.all([closed(client, server), closed(server, client)]).then(() => undefined);
}

/** Resolves when a connection is closed. Then closes the other one, after its data are sent. */
function closed(socket: Socket, other: Socket): Promise<void> {
  return new Promise((resolve) => {
    socket.once("close", (hadError) => {
      if (hadError && !other.destroyed) other.resetAndDestroy();
      else if (!other.destroyed && !other.writableEnded) other.end();
      resolve();
    });
  });
}
