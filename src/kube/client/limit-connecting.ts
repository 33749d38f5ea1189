import type { ClientRequest } from "node:http";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";

/**
 * Fails a request whose connection is not established in time. A host that is down does not answer at all: the kernel then
 * repeats its first packet at ever longer intervals for two minutes, and notices late that the host is back.
 * @param socket the request's socket: a new one, or one that is connected already
 * @param within milliseconds until the connection must be established, including the TLS handshake
 */
export function limitConnecting(sent: ClientRequest, socket: Socket, within: number): void {
  if (!socket.connecting) return;
  const fail = () =>
    sent.destroy(socket.connecting ? unreachable(within) : new Error(`no TLS handshake within ${within} ms`));
  const timer = setTimeout(fail, within);
  for (const event of [socket instanceof TLSSocket ? "secureConnect" : "connect", "close"])
    socket.once(event, () => clearTimeout(timer));
}

/** An error with the code that the kernel would report later. */
function unreachable(within: number): Error {
  return Object.assign(new Error(`no connection within ${within} ms`), { code: "ETIMEDOUT" });
}
