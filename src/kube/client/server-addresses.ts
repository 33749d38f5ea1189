import { isIP, type Socket } from "node:net";
import { setNewest } from "../../base/group-by.ts";
import { canonicalAddress } from "../../model/ip.ts";

/**
 * An address to which a client of the API server connects: the server's own, or that of the proxy before it.
 */
export interface ServerAddress {
  /** Canonical. */
  readonly address: string;
  /** 1..65535 */
  readonly port: number;
}

/** The default ports of URLs. Source: the URL standard; RFC 1928 for SOCKS. */
const DEFAULT_PORTS: Readonly<Record<string, number>> = {
  "http:": 80,
  "https:": 443,
  "socks5:": 1080,
  "socks5h:": 1080,
};

/** Maximum number of addresses that are kept: a name may resolve to different ones every few minutes. */
const MOST = 64;

/**
 * Collects the addresses of connections. For a name, these are the addresses that it is resolved to before a
 * connection is made, including ones that do not answer or that belong to another host.
 */
export class ServerAddresses {
  readonly #known = new Map<string, ServerAddress>();

  /** Returns the addresses seen last, at most 64, in no particular order. */
  all(): readonly ServerAddress[] {
    return [...this.#known.values()];
  }

  /**
   * Adds the addresses of a connection.
   * @param url the URL that the connection is opened to
   * @param socket its socket, in any state: resolving, connecting or connected
   */
  follow(url: URL, socket: Pick<Socket, "connecting" | "remoteAddress" | "on">): void {
    const port = Number(url.port) || (DEFAULT_PORTS[url.protocol] ?? 0);
    const host = url.hostname.replace(/^\[|\]$/g, "");
    if (isIP(host) !== 0) this.#add(host, port);
    else if (socket.connecting) socket.on("lookup", (_, address) => this.#add(address, port));
    else this.#add(socket.remoteAddress, port);
  }

  /** @param text undefined or not an address if there is none */
  #add(text: string | undefined, port: number): void {
    const address = canonicalAddress(text ?? "");
    if (address === undefined) return;
    setNewest(this.#known, `${address} ${port}`, { address, port }, MOST);
  }
}
