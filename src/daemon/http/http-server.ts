import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { isIP, type Socket } from "node:net";
import { AppError, messageOf } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import { socketText } from "../../base/text.ts";

/** What a server answers. */
export interface HttpAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * Answers one request. A rejection is answered with 500 and logged.
 * @param gone aborted when the client goes away before it has its answer
 */
export type Route = (query: URLSearchParams, gone?: AbortSignal) => HttpAnswer | Promise<HttpAnswer>;

/** Answers by path: the whole of what a server serves. */
export type Routes = ReadonlyMap<string, Route>;

/** Finds the route of a path, or undefined for 404. */
export type FindRoute = (path: string) => Route | undefined;

/** An answer of plain text. */
export function textAnswer(body: string, status = 200): HttpAnswer {
  return { status, contentType: "text/plain; charset=utf-8", body };
}

/** An answer of JSON; `body` is the text itself, so that each endpoint keeps its own layout. */
export function jsonAnswer(
  body: string,
  status = 200,
  headers: Readonly<Record<string, string>> = {},
): HttpAnswer {
  return { status, contentType: "application/json", body, headers };
}

/** A server that listens. */
export interface OpenServer {
  /** The port it has, chosen by the kernel if 0 was asked for; 0 for a Unix socket. */
  readonly port: number;
  /** Stops listening and ends every connection, also those kept alive. Never rejects. */
  close(): Promise<void>;
}

/** An HTTP server that listens. */
export interface HttpServer extends OpenServer {
  /** How many connections are open. */
  readonly connections: number;
}

/** An address to listen on: a TCP address, or the path of a Unix socket that only its owner can use. */
export type ListenAddress = SocketAddress | { readonly path: string };

/** A TCP address. */
export interface SocketAddress {
  /** Undefined for every address of both families; `0.0.0.0` and `::` for every address of one family. */
  readonly host: string | undefined;
  /** 1..65535, or 0 for any that is free. */
  readonly port: number;
}

/**
 * Go listens on both families when asked for 0.0.0.0, and users of kube-proxy rely on it; Node does so only when
 * asked for no address at all.
 */
export function listenAddress(address: string, port: number): SocketAddress {
  return { host: ["", "0.0.0.0", "::"].includes(address) ? undefined : address, port };
}

/** An address as people write it. */
export function formatListenAddress(address: ListenAddress): string {
  if ("path" in address) return address.path;
  return socketText(address.host ?? "*", address.port);
}

/** What clients may cost. */
export interface HttpLimits {
  /** Open connections; see {@link limitConnections} for which one gives way to one more. */
  readonly connections: number;
  /** How long a client may neither send nor read anything, milliseconds: what it does not read is kept for it. */
  readonly idleMs: number;
}

/** The limits of every server of the daemon. */
export const HTTP_LIMITS: HttpLimits = { connections: 256, idleMs: 60_000 };

/** Times within which a request has to arrive, milliseconds, and how often they are looked at: no request has a body. */
const REQUEST_LIMITS = {
  headersTimeout: 5000,
  requestTimeout: 10_000,
  keepAliveTimeout: 5000,
  connectionsCheckingInterval: 1000,
  maxHeaderSize: 8192,
};

/**
 * Serves `find`'s routes to GET and HEAD over HTTP.
 *
 * @throws AppError HOST when the address cannot be listened on
 */
export function openHttpServer(
  address: ListenAddress,
  find: FindRoute,
  logger: Logger,
  limits: HttpLimits = HTTP_LIMITS,
): Promise<HttpServer> {
  const isLocal = isLoopback(address);
  const server = createServer(REQUEST_LIMITS, (request, response) => {
    const found = isLocal && !isLocalHost(request.headers.host) ? () => () => MISDIRECTED : find;
    void respond(request, response, found, logger);
  });
  server.setTimeout(limits.idleMs);
  const connections = limitConnections(server, limits.connections);
  return new Promise((resolve, reject) => {
    server.once("error", (error) => reject(listenError(address, error)));
    listen(server, address, () => {
      server.removeAllListeners("error");
      // Accepting may fail later, when the process is out of files; the server goes on by itself.
      server.on("error", (error) =>
        logger.warn({ error: error.message }, "HTTP server cannot accept a connection"),
      );
      resolve({
        port: portOf(server),
        get connections() {
          return connections();
        },
        close: () => closeServer(server),
      });
    });
  });
}

const MISDIRECTED = textAnswer("the Host header must be localhost or an address\n", 421);

/** Only this host can reach a loopback address, and the browsers on it. */
function isLoopback(address: ListenAddress): boolean {
  return "host" in address && address.host !== undefined && /^(?:127\.|::1$|localhost$)/.test(address.host);
}

/**
 * Whether a Host header is not the name of a foreign page, which a browser would send after that page had its name
 * resolved to 127.0.0.1 (DNS rebinding). Clients that are no browsers may leave it out.
 */
function isLocalHost(header: string | undefined): boolean {
  const host = header?.replace(/:\d*$/, "").replace(/^\[(.*)\]$/, "$1");
  return host === undefined || host.toLowerCase() === "localhost" || isIP(host) !== 0;
}

/**
 * Closes a connection for each one over the limit: the oldest of the client that has the most. Every pod can reach the
 * health port, and must not keep the kubelet's probes out, whose connections come from this host and give way last.
 * @returns tells how many connections are open
 */
function limitConnections(server: Server, most: number): () => number {
  /** Each client's connections, the oldest first. */
  const clients = new Map<string, Set<Socket>>();
  const count = () => [...clients.values()].reduce((sum, { size }) => sum + size, 0);
  const forget = (client: string, socket: Socket) => {
    const open = clients.get(client);
    open?.delete(socket);
    if (open?.size === 0) clients.delete(client);
  };
  server.on("connection", (socket: Socket) => {
    if (count() >= most) {
      const [client, open] = busiestOf(clients);
      const [oldest] = open;
      if (oldest !== undefined) forget(client, oldest);
      oldest?.destroy();
    }
    const client = clientOf(socket);
    clients.set(client, (clients.get(client) ?? new Set()).add(socket));
    socket.once("close", () => forget(client, socket));
  });
  return count;
}

/** The client of what this host connects to itself. */
const THIS_HOST = "";

/** The kubelet connects to an address of its own host from the same address; of a Unix socket both are undefined. */
function clientOf({ remoteAddress, localAddress }: Socket): string {
  return remoteAddress === undefined || remoteAddress === localAddress ? THIS_HOST : remoteAddress;
}

/** The client with the most connections: this host only where there is no other. */
function busiestOf(
  clients: ReadonlyMap<string, ReadonlySet<Socket>>,
): readonly [string, ReadonlySet<Socket>] {
  const others = [...clients].filter(([client]) => client !== THIS_HOST);
  const [busiest] = others.sort(([, a], [, b]) => b.size - a.size);
  return busiest ?? [THIS_HOST, clients.get(THIS_HOST) ?? new Set()];
}

function listen(server: Server, address: ListenAddress, onListening: () => void): void {
  if (!("path" in address)) {
    server.listen({ ...address, ipv6Only: address.host === "::" }, onListening);
    return;
  }
  // The socket is made within listen(), with these permissions from its first moment.
  const umask = process.umask(0o177);
  try {
    server.listen(address, onListening);
  } finally {
    process.umask(umask);
  }
}

/** The port that a server has; 0 for a Unix socket. */
function portOf(server: Server): number {
  const address = server.address();
  return address === null || typeof address === "string" ? 0 : address.port;
}

function listenError(address: ListenAddress, cause: NodeJS.ErrnoException): AppError {
  const message = `cannot listen on ${formatListenAddress(address)}: ${cause.message}`;
  if (cause.code !== "EADDRINUSE" || "path" in address) return new AppError("HOST", message, { cause });
  const hint = "another process has the port; is kube-proxy still running on this node?";
  return new AppError("HOST", message, { cause, hint });
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}

async function respond(request: IncomingMessage, response: ServerResponse, find: FindRoute, logger: Logger) {
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  const answer = await answerFor(request, find, gone.signal, logger);
  const body = Buffer.from(answer.body);
  response.writeHead(answer.status, {
    "Content-Type": answer.contentType,
    "Content-Length": body.length,
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    ...answer.headers,
  });
  response.end(request.method === "HEAD" ? undefined : body);
}

async function answerFor(
  request: IncomingMessage,
  find: FindRoute,
  gone: AbortSignal,
  logger: Logger,
): Promise<HttpAnswer> {
  const [path = "", query = ""] = (request.url ?? "").split("?", 2);
  const route = find(path);
  if (route === undefined) return textAnswer("not found\n", 404);
  if (request.method !== "GET" && request.method !== "HEAD") {
    return {
      ...textAnswer("method not allowed\n", 405),
      headers: { Allow: "GET, HEAD", Connection: "close" },
    };
  }
  try {
    return await route(new URLSearchParams(query), gone);
  } catch (error) {
    logger.error({ path, error: messageOf(error) }, "HTTP request failed");
    return textAnswer("internal error\n", 500);
  }
}
