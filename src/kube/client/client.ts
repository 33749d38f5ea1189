import { Agent as HttpAgent, request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import type { Connection, Credentials } from "./connection.ts";

/** One request to an API server. */
export interface ApiRequest {
  readonly method: "GET" | "POST" | "PATCH";
  /** Absolute path in the API, such as `/api/v1/services`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  /** Sent as JSON; of a PATCH, as a merge patch (RFC 7396). */
  readonly body?: object;
  /** Ends the request and its answer's stream. Nothing else bounds how long they take. */
  readonly signal: AbortSignal;
}

/** An answer whose body is still to come. Whoever takes it must read it to its end, or abort the request. */
export interface ApiResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: AsyncIterable<Uint8Array>;
}

/** What the reflector and the events recorder need of an API server. */
export interface ApiClient {
  /** Rejects if there is no answer: no connection, credentials that cannot be read, an aborted signal. */
  request(request: ApiRequest): Promise<ApiResponse>;
  /** Drops all connections. */
  close(): void;
}

/** What an {@link HttpApiClient} needs. */
export interface HttpApiClientOptions {
  /** Called for the first request, and again after a 401: tokens, kubeconfig and all may have been replaced. */
  readonly connect: () => Promise<Connection>;
  /** The User-Agent header, by which API server operators tell clients apart. */
  readonly userAgent: string;
}

/**
 * Milliseconds of silence before the kernel probes a connection. libuv then probes each second, ten times: a dead peer
 * is noticed within 40 s.
 */
const KEEPALIVE_AFTER = 30_000;

/** An API server over HTTP/1.1, all requests through one agent that keeps connections alive. */
export class HttpApiClient implements ApiClient {
  private readonly options: HttpApiClientOptions;
  private readonly agents = {
    http: new HttpAgent({ keepAlive: true, keepAliveMsecs: KEEPALIVE_AFTER }),
    https: new HttpsAgent({ keepAlive: true, keepAliveMsecs: KEEPALIVE_AFTER }),
  };
  private connection: Connection | undefined;
  private stale = false;

  constructor(options: HttpApiClientOptions) {
    this.options = options;
  }

  async request(request: ApiRequest): Promise<ApiResponse> {
    const { server, headers, tls } = await abortable(this.prepare(), request.signal);
    const url = urlOf(server, request);
    const body = request.body === undefined ? undefined : JSON.stringify(request.body);
    const options = {
      ...tls,
      method: request.method,
      signal: request.signal,
      headers: {
        accept: "application/json",
        "user-agent": this.options.userAgent,
        ...(body === undefined
          ? {}
          : { "content-type": contentType(request), "content-length": Buffer.byteLength(body) }),
        ...headers,
      },
    };
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      const sent =
        url.protocol === "http:"
          ? httpRequest(url, { ...options, agent: this.agents.http }, resolve)
          : httpsRequest(url, { ...options, agent: this.agents.https }, resolve);
      sent.on("socket", (socket) => socket.setKeepAlive(true, KEEPALIVE_AFTER));
      sent.on("error", reject);
      sent.end(body);
    });
    if (answer.statusCode === 401) {
      this.stale = true;
    }
    return { status: answer.statusCode ?? 0, headers: answer.headers, body: answer };
  }

  close(): void {
    this.agents.http.destroy();
    this.agents.https.destroy();
  }

  private async prepare(): Promise<Credentials & { readonly server: URL }> {
    if (this.connection === undefined || this.stale) {
      this.connection = await this.options.connect();
      this.stale = false;
    }
    return { server: this.connection.server, ...(await this.connection.credentials()) };
  }
}

function contentType({ method }: ApiRequest): string {
  return method === "PATCH" ? "application/merge-patch+json" : "application/json";
}

/** Reads a body to its end, as text. Rejects if the connection breaks before it. */
export async function readText(body: AsyncIterable<Uint8Array>, onChunk: () => void = () => {}): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) {
    chunks.push(chunk);
    onChunk();
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** A credential plugin may hang like any process; the request that waits for it must still end. */
function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
    if (signal.aborted) {
      abort();
    }
  });
}

function urlOf(server: URL, request: ApiRequest): URL {
  // A server may live below a path (https://host/k8s/clusters/c-1), which new URL(path, base) would drop.
  const url = new URL(server.href.replace(/\/+$/, "") + request.path);
  for (const [name, value] of Object.entries(request.query ?? {})) {
    url.searchParams.set(name, value);
  }
  return url;
}
