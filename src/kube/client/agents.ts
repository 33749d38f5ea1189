import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import type { Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { Agent, type AgentConnectOpts } from "agent-base";
import { connectedBy } from "./limit-connecting.ts";
import { openTunnel } from "./tunnel.ts";

/** Agents that keep connections alive, by the protocol of the server. */
export interface Agents {
  readonly http: HttpAgent;
  readonly https: HttpAgent;
}

/**
 * Milliseconds without data before the kernel probes a connection. libuv then probes each second, ten times: a dead peer
 * is detected within 40 s.
 */
export const KEEPALIVE_AFTER = 30_000;

const KEEPALIVE = { keepAlive: true, keepAliveMsecs: KEEPALIVE_AFTER };

/**
 * Makes agents that connect to servers directly, or through a proxy if one is given.
 * @param within milliseconds until a proxy must have connected, and again until the TLS handshake through it must be done
 */
export function makeAgents(proxy: URL | undefined, within: number): Agents {
  if (proxy === undefined) return { http: new HttpAgent(KEEPALIVE), https: new HttpsAgent(KEEPALIVE) };
  const agent = new TunnelAgent(proxy, within);
  return { http: agent, https: agent };
}

/** Connects through a proxy. The tunnel serves http servers, too: requests are never sent to the proxy itself. */
class TunnelAgent extends Agent {
  readonly #proxy: URL;
  readonly #within: number;

  constructor(proxy: URL, within: number) {
    super(KEEPALIVE);
    this.#proxy = proxy;
    this.#within = within;
  }

  override async connect(_request: unknown, options: AgentConnectOpts): Promise<Socket> {
    const end = { host: options.host ?? "localhost", port: Number(options.port) };
    const socket = await openTunnel(this.#proxy, end, this.#within);
    if (!options.secureEndpoint) return socket;
    const secure = connectTls({ ...options, socket });
    await connectedBy("secureConnect", secure, this.#within);
    return secure;
  }
}
