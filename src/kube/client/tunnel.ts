import { request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { connect, type Socket } from "node:net";
import { SocksClient } from "socks";
import { messageOf } from "../../base/errors.ts";
import { socketText } from "../../base/text.ts";
import { basicAuthorization } from "./connection.ts";
import { connectedBy } from "./limit-connecting.ts";
import { proxyAddress, proxyCredentials, proxyText } from "./proxy-url.ts";

/** The host, an IPv6 address without brackets, and the port that a tunnel leads to. */
export interface TunnelEnd {
  readonly host: string;
  readonly port: number;
}

/**
 * Opens a connection through a proxy: with the method CONNECT (RFC 9110, 9.3.6), or with SOCKS 5 (RFC 1928), where the
 * proxy resolves names, as in client-go.
 * @param within milliseconds until the proxy must have opened it
 * @throws Error that names the proxy, without its password; its `code` is that of the failed connection to the proxy
 */
export async function openTunnel(proxy: URL, end: TunnelEnd, within: number): Promise<Socket> {
  try {
    return await (proxy.protocol.startsWith("socks5") ? withSocks : withConnect)(proxy, end, within);
  } catch (error) {
    // Not kept as the cause: the SOCKS library's error has the password.
    const named = new Error(`the proxy ${proxyText(proxy)}: ${messageOf(error)}`);
    throw Object.assign(named, { code: (error as { readonly code?: unknown }).code });
  }
}

async function withSocks(proxy: URL, end: TunnelEnd, within: number): Promise<Socket> {
  const { host, port } = proxyAddress(proxy);
  const [userId, password] = proxyCredentials(proxy) ?? [];
  // Connected here: the library's error would not tell why the proxy cannot be reached.
  const socket = connect(port, host);
  await connectedBy("connect", socket, within);
  await SocksClient.createConnection({
    proxy: { host, port, type: 5, ...(userId === undefined ? {} : { userId, password: password ?? "" }) },
    existing_socket: socket,
    command: "connect",
    destination: end,
    timeout: within,
  });
  return socket;
}

async function withConnect(proxy: URL, { host, port }: TunnelEnd, within: number): Promise<Socket> {
  const path = socketText(host, port);
  const credentials = proxyCredentials(proxy);
  const sent = (proxy.protocol === "https:" ? httpsRequest : httpRequest)({
    ...proxyAddress(proxy),
    method: "CONNECT",
    path,
    headers: {
      host: path,
      ...(credentials === undefined ? {} : { "proxy-authorization": basicAuthorization(...credentials) }),
    },
    agent: false,
  });
  sent.end();
  const [answer, socket] = (await connectedBy("connect", sent, within)) as [IncomingMessage, Socket];
  if (answer.statusCode === 200) return socket;
  socket.destroy();
  throw new Error(`HTTP ${answer.statusCode} ${answer.statusMessage ?? ""}`.trim());
}
