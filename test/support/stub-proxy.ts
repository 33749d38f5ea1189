import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import { type AddressInfo, connect as connectTo, createServer, type Server, type Socket } from "node:net";
import type { Authority } from "./stub-api/certificates.ts";

/** A proxy on 127.0.0.1 that connects every tunnel to one port there, whatever address is requested. */
export interface StubProxy {
  readonly port: number;
  /** The requested addresses, each with the credentials as sent, or "" for none. */
  readonly asked: readonly { readonly end: string; readonly credentials: string }[];
  close(): void;
}

/**
 * Starts a proxy for the method CONNECT.
 * @param target the port for tunnels, or the status with which all requests are refused
 */
export async function startHttpProxy(
  target: number | { readonly refusal: string },
  tls?: Authority,
): Promise<StubProxy> {
  const asked: { end: string; credentials: string }[] = [];
  const server = tls === undefined ? createHttpServer() : createHttpsServer(tls.server);
  server.on("connect", ({ url = "", headers }, socket) => {
    asked.push({ end: url, credentials: headers["proxy-authorization"] ?? "" });
    if (typeof target === "object") return socket.end(`HTTP/1.1 ${target.refusal}\r\n\r\n`);
    socket.write("HTTP/1.1 200 OK\r\n\r\n");
    join(socket as Socket, target);
  });
  return await listening(server, asked);
}

/** Starts a SOCKS 5 proxy (RFC 1928) that accepts any user and password (RFC 1929), or none. */
export async function startSocksProxy(target: number): Promise<StubProxy> {
  const asked: { end: string; credentials: string }[] = [];
  const server = createServer(async (socket) => {
    const read = readerOf(socket);
    const [, methods = 0] = await read(2);
    const withPassword = (await read(methods)).includes(2);
    socket.write(Buffer.from([5, withPassword ? 2 : 0]));
    const credentials = withPassword ? `${await text(read, 1)}:${await text(read, 0)}` : "";
    if (withPassword) socket.write(Buffer.from([1, 0]));
    const [, , , type] = await read(4);
    const host = type === 3 ? await text(read, 0) : [...(await read(type === 1 ? 4 : 16))].join(".");
    asked.push({ end: `${host}:${(await read(2)).readUInt16BE()}`, credentials });
    socket.write(Buffer.from([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]));
    join(socket, target);
  });
  return await listening(server, asked);
}

/** Skips some bytes, then reads a length and that number of characters. */
async function text(read: (length: number) => Promise<Buffer>, after: number): Promise<string> {
  await read(after);
  const [length = 0] = await read(1);
  return (await read(length)).toString();
}

function readerOf(socket: Socket): (length: number) => Promise<Buffer> {
  return async (length) => {
    if (length === 0) return Buffer.alloc(0);
    for (;;) {
      const chunk: Buffer | null = socket.read(length);
      if (chunk !== null) return chunk;
      await once(socket, "readable");
    }
  };
}

function join(socket: Socket, port: number): void {
  const onward = connectTo(port, "127.0.0.1");
  for (const [from, to] of [
    [socket, onward],
    [onward, socket],
  ] as const) {
    from.on("error", () => {}).on("close", () => to.destroy());
    from.pipe(to);
  }
}

async function listening(server: Server, asked: StubProxy["asked"]): Promise<StubProxy> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket) => sockets.add(socket));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const close = () => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  return { port: (server.address() as AddressInfo).port, asked, close };
}
