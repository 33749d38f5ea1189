import {
  type Agent,
  request as httpRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
} from "node:http";
import { request as httpsRequest } from "node:https";
import type { Socket } from "node:net";
import { pipeline } from "node:stream";
import { createGunzip } from "node:zlib";
import { makeAgent, prepareSocket } from "./agents.ts";
import type { Connection, Credentials } from "./load-connection.ts";

/** One request to an API server. */
export interface ApiRequest {
  readonly method: "GET" | "POST" | "PATCH";
  /** Absolute path in the API, such as `/api/v1/services`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  /** Sent as JSON; for a PATCH, as a merge patch (RFC 7396). */
  readonly body?: object;
  /** The Accept header; JSON if absent. */
  readonly accept?: string;
  /** Aborts the request and the stream of its answer. There is no other limit on their duration. */
  readonly signal: AbortSignal;
}

/** An answer whose body is not read yet. The caller must read it to its end or abort the request. */
export interface ApiResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: AsyncIterable<Uint8Array>;
}

/**
 * A request to the API server that was answered, or failed; the labels and the value of client-go's metrics.
 */
export interface ApiRequestOutcome {
  readonly method: ApiRequest["method"];
  /** Host and port of the server, such as `10.96.0.1:443`. */
  readonly host: string;
  /**
   * The HTTP status, or `<error>` when there was no answer, as in client-go's `rest_client_requests_total`.
   */
  readonly code: string;
  /** Seconds from sending the request to the headers of the answer, or to the failure. */
  readonly seconds: number;
}

/** Called once for each request that was sent. Must not throw. */
export type ApiRequestObserver = (outcome: ApiRequestOutcome) => void;

/** Options of an {@link ApiClient}. */
export interface ApiClientOptions {
  /**
   * Called before the first request, after each 401, when its files have changed, and once a minute while
   * there is no answer: credentials, the kubeconfig itself and the address of the server may have been
   * replaced.
   */
  readonly connect: () => Promise<Connection>;
  /** The User-Agent header, by which operators of API servers distinguish clients. */
  readonly userAgent: string;
  readonly onRequest?: ApiRequestObserver;
  /**
   * Called with the socket of each request and the URL that it connects to: the server's, or that of the
   * proxy before it.
   */
  readonly onSocket?: (url: URL, socket: Socket) => void;
  readonly limits?: Partial<typeof LIMITS>;
}

/** Times of an {@link ApiClient}, in milliseconds. */
const LIMITS = {
  /** The time within which a connection must be established, including the TLS handshake. */
  connectWithin: 10_000,
  /** The time without an answer after which `connect` is called again. */
  reconnectAfter: 60_000,
  /** The age at which a connection is closed when its request ends. */
  replaceAfter: 1_800_000,
};

/** The connection and credentials of a request. */
interface Prepared {
  readonly server: URL;
  readonly proxy: URL | undefined;
  readonly agent: Agent;
  readonly credentials: Credentials;
}

/** Talks HTTP/1.1 to an API server, all requests through one agent that keeps connections alive. */
export class ApiClient {
  readonly #options: ApiClientOptions;
  readonly #limits: typeof LIMITS;
  #agent: Agent | undefined;
  #connection: Connection | undefined;
  /** Shared by all requests that wait for it, so that a hanging credential plugin is only one process. */
  #preparation: Promise<Prepared> | undefined;
  /** True if the server refused the credentials. */
  #isRefused = false;
  /**
   * Since when there has been neither an answer nor a call of `connect`; undefined if the last request was
   * answered.
   */
  #unansweredSince: number | undefined;

  constructor(options: ApiClientOptions) {
    this.#options = options;
    this.#limits = { ...LIMITS, ...options.limits };
  }

  /**
   * Sends a request. Resolves when the headers of the answer have arrived, whatever its status.
   * @throws Error when there is no answer: no connection, unreadable credentials, or the signal's reason
   */
  async request(request: ApiRequest): Promise<ApiResponse> {
    this.#preparation ??= this.#prepare().finally(() => {
      this.#preparation = undefined;
    });
    const prepared = await abortable(this.#preparation, request.signal);
    const url = urlOf(prepared.server, request);
    const start = performance.now();
    const report = (code: string): void => {
      const seconds = (performance.now() - start) / 1000;
      this.#options.onRequest?.({ method: request.method, host: url.host, code, seconds });
    };
    try {
      const answer = await this.#send(url, request, prepared);
      this.#isRefused = answer.statusCode === 401;
      this.#unansweredSince = undefined;
      report(String(answer.statusCode));
      return { status: answer.statusCode ?? 0, headers: answer.headers, body: plainBody(answer) };
    } catch (error) {
      this.#unansweredSince ??= start;
      report("<error>");
      throw error;
    }
  }

  #send(url: URL, request: ApiRequest, { proxy, agent, credentials }: Prepared): Promise<IncomingMessage> {
    const body = request.body && JSON.stringify(request.body);
    const contentType = request.method === "PATCH" ? "application/merge-patch+json" : "application/json";
    const options = {
      ...credentials,
      agent,
      method: request.method,
      signal: request.signal,
      headers: {
        accept: request.accept ?? "application/json",
        // API servers compress answers of more than 128 KiB. A watch must arrive line by line, so it must not
        // be compressed.
        ...(request.query?.watch === undefined && { "accept-encoding": "gzip" }),
        "user-agent": this.#options.userAgent,
        ...(body && { "content-type": contentType, "content-length": Buffer.byteLength(body) }),
        ...credentials.headers,
      },
    };
    return new Promise((resolve, reject) => {
      const send = url.protocol === "http:" ? httpRequest : httpsRequest;
      const sent = send(url, options, resolve);
      sent.on("socket", (socket) => {
        prepareSocket(sent, socket, this.#limits.connectWithin);
        this.#options.onSocket?.(proxy ?? url, socket);
      });
      sent.on("error", reject);
      sent.end(body);
    });
  }

  /**
   * Closes the connections without a request. Call it when an answer stopped: a load balancer that passes
   * nothing on keeps those connections open, too.
   */
  closeIdle(): void {
    const idle = Object.values(this.#agent?.freeSockets ?? {}).flat();
    for (const socket of idle) socket?.destroy();
  }

  close(): void {
    this.#agent?.destroy();
    this.#agent = undefined;
  }

  async #prepare(): Promise<Prepared> {
    const before = this.#connection;
    const connection = await this.#currentConnection();
    this.#connection = connection;
    const { server, proxy } = connection;
    // An agent serves any host of one protocol and proxy.
    if (proxy?.href !== before?.proxy?.href || server.protocol !== before?.server.protocol) this.close();
    const { connectWithin, replaceAfter } = this.#limits;
    this.#agent ??= makeAgent(server, proxy, connectWithin, replaceAfter);
    return { server, proxy, agent: this.#agent, credentials: await connection.credentials() };
  }

  async #currentConnection(): Promise<Connection> {
    const known = this.#connection;
    if (known === undefined || this.#isRefused) {
      const connection = await this.#options.connect();
      this.#isRefused = false;
      return connection;
    }
    const since = this.#unansweredSince;
    const isOverdue = since !== undefined && performance.now() - since >= this.#limits.reconnectAfter;
    if (!isOverdue && (await known.isCurrent())) return known;
    if (this.#unansweredSince !== undefined) this.#unansweredSince = performance.now();
    // While a kubeconfig is being replaced, it may be unreadable.
    return await this.#options.connect().catch(() => known);
  }
}

/**
 * The size of the pieces of a decompressed answer, bytes: zlib's default of 16 KiB means many calls for a
 * list of some megabytes.
 */
const PIECE = 65_536;

/** Returns the body as the server meant it: decompressed, if it was sent as gzip. */
function plainBody(answer: IncomingMessage): AsyncIterable<Uint8Array> {
  if (answer.headers["content-encoding"] !== "gzip") return answer;
  const plain = createGunzip({ chunkSize: PIECE });
  // An answer that breaks off is an error of `plain`, and a reader that stops early ends the answer.
  pipeline(answer, plain, () => {});
  return plain;
}

/** Rejects with the signal's reason when it aborts first: a credential plugin may take longer. */
function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
    if (signal.aborted) abort();
  });
}

function urlOf(server: URL, request: ApiRequest): URL {
  // A server's URL may have a path (https://host/k8s/clusters/c-1), which new URL(path, base) would drop.
  const url = new URL(server.href.replace(/\/+$/, "") + request.path);
  for (const [name, value] of Object.entries(request.query ?? {})) url.searchParams.set(name, value);
  return url;
}
