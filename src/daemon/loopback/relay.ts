import { connect, type Socket } from "node:net";

/** Where a connection is relayed to. */
export interface RelayTarget {
  readonly host: string;
  /** 1..65535 */
  readonly port: number;
}

/** Most connections that are relayed at a time: each takes two sockets and up to 0.1 MB. */
export const MOST_CONNECTIONS = 4096;

/** How long a target may take to accept, milliseconds. */
const CONNECT_TIMEOUT = 10_000;

/** After this long without data the kernel asks whether the other side is still there, milliseconds. */
const KEEPALIVE_DELAY = 30_000;

/**
 * Connects an accepted connection to a target and passes everything on, until both sides are through: an end of one
 * direction is passed on as such (half-close), a reset as a reset, and a reader that is slow slows the writer down. A
 * target that cannot be reached resets the client, which is the nearest to a refusal that an accepted connection has.
 *
 * @param client paused, with half-open allowed
 * @param onRefused told when the target could not be reached
 * @returns resolves when both connections are closed; never rejects
 */
export function relay(client: Socket, target: RelayTarget, onRefused: (error: Error) => void): Promise<void> {
  const server = connect({ ...target, allowHalfOpen: true, noDelay: true, keepAlive: true });
  server.setKeepAlive(true, KEEPALIVE_DELAY);
  client.setKeepAlive(true, KEEPALIVE_DELAY);
  client.setNoDelay(true);
  server.setTimeout(CONNECT_TIMEOUT, () =>
    server.destroy(new Error(`no answer within ${CONNECT_TIMEOUT / 1000} s`)),
  );
  let isConnected = false;
  server.once("connect", () => {
    isConnected = true;
    server.setTimeout(0);
    client.pipe(server);
    server.pipe(client);
  });
  server.on("error", (error) => {
    if (!isConnected) onRefused(error);
    client.resetAndDestroy();
  });
  client.on("error", () => server.resetAndDestroy());
  return Promise.all([closed(client, server), closed(server, client)]).then(() => undefined);
}

/** Resolves when a connection is closed; the other one does not outlive it unless data are still to be sent. */
function closed(socket: Socket, other: Socket): Promise<void> {
  return new Promise((resolve) => {
    socket.once("close", (hadError) => {
      if (hadError && !other.destroyed) other.resetAndDestroy();
      else if (!other.destroyed && !other.writableEnded) other.end();
      resolve();
    });
  });
}
