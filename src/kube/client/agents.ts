import { type ClientRequest, Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import type { Socket } from "node:net";
import { checkServerIdentity, TLSSocket } from "node:tls";
import { HttpsProxyAgent } from "https-proxy-agent";
import { SocksProxyAgent } from "socks-proxy-agent";
import { messageOf } from "../../base/errors.ts";
import { proxyText } from "./proxy.ts";

/**
 * Milliseconds without data before the kernel probes a connection. libuv then probes each second, ten times:
 * a dead peer is detected within 40 s.
 */
const KEEPALIVE_AFTER = 30_000;

const KEEPALIVE = { keepAlive: true, keepAliveMsecs: KEEPALIVE_AFTER };

/** Time at which each connection was opened, by the monotonic clock. */
const openedAt = new WeakMap<object, number>();

/**
 * Makes an agent that connects to a server directly, or through a proxy if one is given. Tunnels serve http
 * servers, too: requests are never sent to the proxy itself.
 * @param within milliseconds until a proxy must have connected
 * @param replaceAfter milliseconds after which a connection is closed when its request ends: otherwise all
 * nodes would stay connected to the first servers, and one that restarted behind a load balancer would get no
 * connections
 */
export function makeAgent(
  server: URL,
  proxy: URL | undefined,
  within: number,
  replaceAfter: number,
): HttpAgent {
  const agent = proxy === undefined ? directAgent(server) : proxyAgent(proxy, within);
  // https://nodejs.org/docs/latest-v20.x/api/http.html#agentkeepsocketalivesocket; the types lack it.
  const keeping = agent as HttpAgent & { keepSocketAlive(socket: object): boolean };
  const keep = keeping.keepSocketAlive.bind(agent);
  keeping.keepSocketAlive = (socket) =>
    performance.now() - (openedAt.get(socket) ?? 0) < replaceAfter && keep(socket);
  return agent;
}

function directAgent({ protocol }: URL): HttpAgent {
  return protocol === "http:" ? new HttpAgent(KEEPALIVE) : new HttpsAgent(KEEPALIVE);
}

function proxyAgent(proxy: URL, within: number): HttpAgent {
  return proxy.protocol.startsWith("socks5")
    ? new SocksAgent(proxy, within)
    : new ConnectAgent(proxy, within);
}

/**
 * Sets up the connection of a request: TCP keep-alive, and a limit to the time in which it is established.
 * @param within as in {@link limitConnecting}
 */
export function prepareSocket(sent: ClientRequest, socket: Socket, within: number): void {
  if (!openedAt.has(socket)) openedAt.set(socket, performance.now());
  socket.setKeepAlive(true, KEEPALIVE_AFTER);
  limitConnecting(sent, socket, within);
}

/** Connects through an http or https proxy with the method CONNECT (RFC 9110, 9.3.6). */
class ConnectAgent extends HttpsProxyAgent<string> {
  readonly #within: number;

  constructor(proxy: URL, within: number) {
    super(proxy, KEEPALIVE);
    this.#within = within;
  }

  override async connect(request: ClientRequest, end: End): Promise<Socket> {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(noConnection(this.#within)), this.#within);
    // The library passes a refusal on as if it were the API server's answer.
    let refusal: string | undefined;
    request.once("proxyConnect", ({ statusCode, statusText }) => {
      if (statusCode !== 200) refusal = `HTTP ${statusCode} ${statusText}`.trim();
    });
    try {
      // The options are read before connect() returns. The signal closes the connection to a proxy that stays
      // silent.
      this.connectOpts = { ...this.connectOpts, signal: late.signal };
      const socket = await super.connect(request, verifiable(end));
      if (refusal !== undefined) throw new Error(refusal);
      return socket;
    } catch (error) {
      throw proxyError(this.proxy, late.signal.aborted ? late.signal.reason : error);
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Connects through a SOCKS 5 proxy (RFC 1928), which resolves names, as in client-go. */
class SocksAgent extends SocksProxyAgent {
  readonly #url: URL;
  readonly #within: number;

  constructor(url: URL, within: number) {
    // For the library, "socks5" means that names are resolved here.
    super(url.href.replace(/^socks5:/, "socks5h:"), KEEPALIVE);
    this.proxy.host = url.hostname.replace(/^\[|\]$/g, "");
    this.#url = url;
    this.#within = within;
  }

  override async connect(request: ClientRequest, end: End): Promise<Socket> {
    const socket = super.connect(request, verifiable(end));
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        // The library gives up after 30 s: its own limit would also apply to the open connection.
        socket.then((opened) => opened.destroy()).catch(() => {});
        reject(noConnection(this.#within));
      }, this.#within);
    });
    try {
      return await Promise.race([socket, late]);
    } catch (error) {
      throw proxyError(this.#url, error);
    } finally {
      clearTimeout(timer);
    }
  }
}

type End = Parameters<SocksProxyAgent["connect"]>[1];

/** The libraries drop an IP address, and would then expect the server's certificate to be for `localhost`. */
function verifiable(end: End): End {
  if (!end.secureEndpoint) return end;
  const name = end.servername || (end.host ?? "");
  return { ...end, checkServerIdentity: (_host, certificate) => checkServerIdentity(name, certificate) };
}

/**
 * Returns an error that names the proxy, without its password, with the code of the system's error. The
 * original is not its cause: the SOCKS library's has the password.
 */
function proxyError(proxy: URL, error: unknown): Error {
  const message = messageOf(error);
  const code = (error as { readonly code?: unknown }).code ?? /\bE[A-Z]{5,}\b/.exec(message)?.[0];
  return Object.assign(new Error(`the proxy ${proxyText(proxy)}: ${message}`), { code });
}

/**
 * Fails a request whose connection is not established in time. A host that is down does not answer at all:
 * the kernel then repeats its first packet at ever longer intervals for two minutes, and notices late that
 * the host is back.
 * @param socket the request's socket: a new one, or one that is connected already
 * @param within milliseconds until the connection must be established, including the TLS handshake
 */
function limitConnecting(sent: ClientRequest, socket: Socket, within: number): void {
  // A connection through a tunnel is new while its handshake lasts. The types lack the field.
  const { secureConnecting = false } = socket as Partial<{ secureConnecting: boolean }>;
  if (!socket.connecting && !secureConnecting) return;
  const noHandshake = () => new Error(`no TLS handshake within ${within} ms`);
  const fail = () => sent.destroy(socket.connecting ? noConnection(within) : noHandshake());
  const timer = setTimeout(fail, within);
  for (const event of [socket instanceof TLSSocket ? "secureConnect" : "connect", "close"])
    socket.once(event, () => clearTimeout(timer));
}

/** An error with the code that the kernel would report later. */
function noConnection(within: number): Error {
  return Object.assign(new Error(`no connection within ${within} ms`), { code: "ETIMEDOUT" });
}
