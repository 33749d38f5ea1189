import { connect, type Socket } from "node:net";

/** The target of a relayed connection. */
export interface RelayTarget {
  readonly host: string;
  /** 1..65535 */
  readonly port: number;
}

/** Maximum number of relayed connections. Each takes two sockets and up to 0.1 MB. */
export const MOST_CONNECTIONS = 4096;

/** Maximum time until a target accepts. Milliseconds. */
const CONNECT_TIMEOUT = 10_000;

/** Time without data after which the kernel probes the other side. Milliseconds. */
const KEEPALIVE_DELAY = 30_000;

/**
 * Relays an accepted connection to a target until both sides are closed. It passes on a half-close, a reset,
 * and the backpressure of a slow reader. If the target cannot be reached, it resets the client, as an
 * accepted connection can no longer be refused.
 * @param client paused, with half-open allowed
 * @param onRefused called if the target cannot be reached
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

/** Resolves when a connection is closed. Then closes the other one, after its data are sent. */
function closed(socket: Socket, other: Socket): Promise<void> {
  return new Promise((resolve) => {
    socket.once("close", (hadError) => {
      if (hadError && !other.destroyed) other.resetAndDestroy();
      else if (!other.destroyed && !other.writableEnded) other.end();
      resolve();
    });
  });
}
