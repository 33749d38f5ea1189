import { once } from "node:events";
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
  const fail = () => sent.destroy(socket.connecting ? noConnection(within) : noHandshake(within));
  const timer = setTimeout(fail, within);
  for (const event of [socket instanceof TLSSocket ? "secureConnect" : "connect", "close"])
    socket.once(event, () => clearTimeout(timer));
}

/**
 * Waits for an event of a stream that is being connected, and destroys the stream when that takes too long.
 * @param within milliseconds
 * @throws Error that says so, or the stream's own
 */
export async function connectedBy(
  event: "connect" | "secureConnect",
  stream: ClientRequest | Socket,
  within: number,
): Promise<unknown[]> {
  const late = event === "connect" ? noConnection(within) : noHandshake(within);
  const timer = setTimeout(() => stream.destroy(late), within);
  return await once(stream, event).finally(() => clearTimeout(timer));
}

/** An error with the code that the kernel would report later. */
function noConnection(within: number): Error {
  return Object.assign(new Error(`no connection within ${within} ms`), { code: "ETIMEDOUT" });
}

function noHandshake(within: number): Error {
  return new Error(`no TLS handshake within ${within} ms`);
}
