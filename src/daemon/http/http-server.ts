import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { isIP, type Server as NetServer, type Socket } from "node:net";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setImmediate as nextTurn } from "node:timers/promises";
import { AppError, messageOf } from "../../base/errors.ts";
import { addToSet, removeFromSet } from "../../base/group-by.ts";
import type { Logger } from "../../base/logger.ts";
import { socketText } from "../../base/text.ts";

/** An answer of a server. */
export interface HttpAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
  /** Sent instead of the body. Each piece is made when the client has read those before it. */
  readonly pieces?: Iterable<string>;
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * Answers one request. A rejection is answered with 500 and logged.
 * @param gone aborted if the client leaves before its answer
 */
export type Route = (query: URLSearchParams, gone?: AbortSignal) => HttpAnswer | Promise<HttpAnswer>;

/** All routes of a server by path. */
export type Routes = ReadonlyMap<string, Route>;

/** Finds the route of a path, or undefined for 404. */
export type FindRoute = (path: string) => Route | undefined;

/** Makes an answer of plain text. */
export function textAnswer(body: string, status = 200): HttpAnswer {
  return { status, contentType: "text/plain; charset=utf-8", body };
}

/** Makes an answer of JSON. `body` is its text, so that each endpoint has its own layout. */
export function jsonAnswer(
  body: string,
  status = 200,
  headers: Readonly<Record<string, string>> = {},
): HttpAnswer {
  return { status, contentType: "application/json", body, headers };
}

/** A server that listens. */
export interface OpenServer {
  /** Stops listening and closes all connections, also idle ones. Never rejects. */
  close(): Promise<void>;
}

/** An address to listen on: TCP, or the path of a Unix socket that only its owner can use. */
export type ListenAddress = SocketAddress | { readonly path: string };

/** A TCP address. */
export interface SocketAddress {
  /** Undefined for every address of both families; `0.0.0.0` and `::` for every address of one family. */
  readonly host: string | undefined;
  /** 1..65535, or 0 for any that is free. */
  readonly port: number;
}

/**
 * Returns the address to listen on. Go listens on both families for 0.0.0.0, which users of kube-proxy rely
 * on. Node only does so without an address.
 */
export function listenAddress(address: string, port: number): SocketAddress {
  return { host: ["", "0.0.0.0", "::"].includes(address) ? undefined : address, port };
}

/** Formats an address. */
export function formatListenAddress(address: ListenAddress): string {
  if ("path" in address) return address.path;
  return socketText(address.host ?? "*", address.port);
}

/** Maximum number of open connections of a server. */
const MOST_OPEN = 256;

/** Maximum time that a client neither sends nor reads anything, as unread data take memory. Milliseconds. */
const LONGEST_IDLE = 60_000;

/** Time limits for requests, which have no body, and the interval at which they are checked. Milliseconds. */
const REQUEST_LIMITS = {
  headersTimeout: 5000,
  requestTimeout: 10_000,
  keepAliveTimeout: 5000,
  connectionsCheckingInterval: 1000,
  maxHeaderSize: 8192,
};

/**
 * Serves routes to GET and HEAD over HTTP.
 * @param connections the limit of a server of its own, or of several together
 * @param longestIdle milliseconds
 * @throws AppError HOST if the address cannot be bound
 */
export async function openHttpServer(
  address: ListenAddress,
  find: FindRoute,
  logger: Logger,
  connections = new ConnectionLimit(MOST_OPEN),
  longestIdle = LONGEST_IDLE,
) {
  const isLocal = isLoopback(address);
  const server = createServer(REQUEST_LIMITS, (request, response) => {
    const found = isLocal && !isLocalHost(request.headers.host) ? () => () => MISDIRECTED : find;
    void respond(request, response, found, logger);
  });
  server.setTimeout(longestIdle);
  server.on("connection", (socket: Socket) => connections.add(socket));
  const inUse = "another process has the port; is kube-proxy still running on this node?";
  await listen(server, address, inUse, (error) =>
    logger.warn({ error: error.message }, "HTTP server cannot accept a connection"),
  );
  return { server, close: () => closeServer(server) };
}

const MISDIRECTED = textAnswer("the Host header must be localhost or an address\n", 421);

/** Whether only this host, and browsers on it, can reach an address. */
function isLoopback(address: ListenAddress): boolean {
  return "host" in address && address.host !== undefined && /^(?:127\.|::1$|localhost$)/.test(address.host);
}

/**
 * Whether a Host header is not the name of a foreign website. A browser sends such a name if the website
 * makes it resolve to 127.0.0.1 (DNS rebinding). Other clients may omit the header.
 */
function isLocalHost(header: string | undefined): boolean {
  const host = header?.replace(/:\d*$/, "").replace(/^\[(.*)\]$/, "$1");
  return host === undefined || host.toLowerCase() === "localhost" || isIP(host) !== 0;
}

/**
 * Limits the open connections of a server, or of several together. Closes a connection for each one over the
 * limit: the oldest of the client with the most. Every pod can reach the health port and must not displace
 * the kubelet's probes, so connections from this host are closed last.
 */
export class ConnectionLimit {
  readonly #most: number;
  /** The connections of each client, oldest first. */
  readonly #clients = new Map<string, Set<Socket>>();
  #count = 0;

  constructor(most: number) {
    this.#most = most;
  }

  /** Adds a new connection until it is closed. */
  add(socket: Socket): void {
    if (this.#count >= this.#most) this.#closeOne();
    const client = clientOf(socket);
    addToSet(this.#clients, client, socket);
    this.#count++;
    socket.once("close", () => this.#delete(client, socket));
  }

  #closeOne(): void {
    const client = this.#busiest();
    const [oldest] = this.#clients.get(client) ?? [];
    if (oldest === undefined) return;
    this.#delete(client, oldest);
    oldest.destroy();
  }

  #delete(client: string, socket: Socket): void {
    if (removeFromSet(this.#clients, client, socket)) this.#count--;
  }

  /** Returns the client with the most connections; this host only if there is no other. */
  #busiest(): string {
    let [busiest, most] = [THIS_HOST, 0];
    for (const [client, { size }] of this.#clients)
      if (client !== THIS_HOST && size > most) [busiest, most] = [client, size];
    return busiest;
  }
}

/** The client for connections from this host. */
const THIS_HOST = "";

/** The kubelet connects from the same address that it connects to. For a Unix socket, both are undefined. */
function clientOf({ remoteAddress, localAddress }: Socket): string {
  return remoteAddress === undefined || remoteAddress === localAddress ? THIS_HOST : remoteAddress;
}

/**
 * Resolves once a server listens. Later errors are passed on: accepting fails while the process has too many
 * open files, and the server then continues by itself.
 * @param inUse the hint if another process has the port
 * @throws AppError HOST if the address cannot be bound
 */
export function listen(
  server: NetServer,
  address: ListenAddress,
  inUse: string,
  onError: (error: Error) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (error) => reject(listenError(address, error, inUse)));
    bind(server, address, () => {
      server.removeAllListeners("error");
      server.on("error", onError);
      resolve();
    });
  });
}

function bind(server: NetServer, address: ListenAddress, onListening: () => void): void {
  if (!("path" in address)) {
    server.listen({ ...address, ipv6Only: address.host === "::" }, onListening);
    return;
  }
  // listen() creates the socket with these permissions.
  const umask = process.umask(0o177);
  try {
    server.listen(address, onListening);
  } finally {
    process.umask(umask);
  }
}

function listenError(address: ListenAddress, cause: NodeJS.ErrnoException, inUse: string): AppError {
  const hint = cause.code === "EADDRINUSE" && !("path" in address) ? inUse : undefined;
  return new AppError("HOST", `cannot listen on ${formatListenAddress(address)}: ${cause.message}`, {
    cause,
    hint,
  });
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
  const { status, contentType, headers, body, pieces } = await answerFor(request, find, gone.signal, logger);
  response.writeHead(status, {
    "Content-Type": contentType,
    ...(pieces === undefined && { "Content-Length": Buffer.byteLength(body) }),
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    ...headers,
  });
  if (request.method === "HEAD") response.end();
  else if (pieces === undefined) response.end(body);
  else
    await pipeline(Readable.from(joined(pieces)), response).catch((error: NodeJS.ErrnoException) => {
      // A client that leaves before the end of its answer is no failure.
      if (error.code !== "ERR_STREAM_PREMATURE_CLOSE") logFailure(request.url, error, logger);
    });
}

/** Number of characters from which on pieces are sent: each takes a call of the kernel. */
const LEAST_SENT = 262_144;

/** Joins pieces, and yields to other work after each text: a stream would send all of them before that. */
async function* joined(pieces: Iterable<string>): AsyncGenerator<string> {
  let text = "";
  for (const piece of pieces) {
    text += piece;
    if (text.length < LEAST_SENT) continue;
    yield text;
    text = "";
    await nextTurn();
  }
  yield text;
}

function logFailure(path: string | undefined, error: unknown, logger: Logger): void {
  logger.error({ path, error: messageOf(error) }, "HTTP request failed");
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
    logFailure(path, error, logger);
    return textAnswer("internal error\n", 500);
  }
}
