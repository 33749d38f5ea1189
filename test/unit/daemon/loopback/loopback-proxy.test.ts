import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { afterEach, describe, expect, test } from "vitest";
import { type LoopbackNodePort, loopbackProxy } from "../../../../src/daemon/loopback/loopback-proxy.ts";
import { named } from "../../../support/build.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { memoryLogger } from "../../../support/memory-logger.ts";

// The proxy listens on 127.0.0.1. An endpoint listens on the same port of 127.0.0.2, to which the kernel's
// rules would translate.

/** Vitest's default of one second is too short for a slow machine. */
const PATIENCE = { timeout: 30_000 };

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

/** An endpoint and its NodePort. */
async function endpoint(serve: (socket: Socket) => void): Promise<{ server: Server; port: number }> {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on("error", () => {});
    serve(socket);
  });
  server.listen(0, "127.0.0.2");
  await once(server, "listening");
  closers.push(() => server.close());
  return { server, port: (server.address() as AddressInfo).port };
}

function proxy(maxConnections = 100, target = "127.0.0.2") {
  const clock = new ManualClock();
  const logger = memoryLogger();
  const bindFailures: unknown[] = [];
  const made = loopbackProxy({
    targets: { ip: target, ip6: "::1" },
    clock,
    logger,
    onBindFailed: (_, error) => bindFailures.push(error),
    maxConnections,
  });
  const seen = {
    get listeners() {
      return made.listeners.ip;
    },
    get connections() {
      return made.connections;
    },
    bindFailures,
    refused: made.refused,
  };
  closers.push(() => made.close());
  return { proxy: made, clock, seen, logger };
}

const nodePort = (port: number): LoopbackNodePort => ({ family: "ip", port, service: named("shop/cart") });

async function client(port: number): Promise<Socket> {
  const socket = connect({ host: "127.0.0.1", port, allowHalfOpen: true });
  closers.push(() => socket.destroy());
  await once(socket, "connect");
  socket.on("error", () => {});
  return socket;
}

const closed = (socket: Socket) => new Promise<boolean>((resolve) => socket.once("close", resolve));

describe("loopbackProxy", () => {
  test("forwards data in both directions, and the end of one direction without ending the other", async () => {
    const { port } = await endpoint((socket) => {
      let read = "";
      socket.on("data", (chunk) => {
        read += String(chunk);
      });
      socket.on("end", () => socket.end(`${read}, read to the end`));
    });
    const { proxy: made, seen } = proxy();
    await made.sync([nodePort(port)]);
    const socket = await client(port);
    socket.end("hello");
    expect(await text(socket)).toBe("hello, read to the end");
    await expect.poll(() => seen.connections, PATIENCE).toBe(0);
  });

  test("lets the endpoint end its direction first", async () => {
    const { port } = await endpoint((socket) => socket.end("bye").resume());
    const { proxy: made, seen } = proxy();
    await made.sync([nodePort(port)]);
    const socket = await client(port);
    expect(await text(socket)).toBe("bye");
    expect(seen.connections).toBe(1);
    socket.end();
    await expect.poll(() => seen.connections, PATIENCE).toBe(0);
  });

  test("pauses a writer while the other side does not read", async () => {
    const sockets: Socket[] = [];
    const { port } = await endpoint((socket) => sockets.push(socket.pause()));
    const { proxy: made } = proxy();
    await made.sync([nodePort(port)]);
    const socket = await client(port);
    const total = 64 * 2 ** 20;
    socket.write(Buffer.alloc(total));
    await expect.poll(() => sockets.length, PATIENCE).toBe(1);
    const before = process.memoryUsage().arrayBuffers;
    await new Promise((resolve) => setTimeout(resolve, 300));
    // The kernel's buffers hold some megabytes, and the proxy almost nothing.
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(8 * 2 ** 20);
    expect(socket.writableLength).toBeGreaterThan(total / 2);
    let received = 0;
    sockets[0]?.on("data", (chunk: Buffer) => {
      received += chunk.length;
    });
    sockets[0]?.resume();
    await expect.poll(() => received, PATIENCE).toBe(total);
  });

  test.each(["client", "endpoint"])("forwards a reset by the %s", async (side) => {
    const sockets: Socket[] = [];
    const { port } = await endpoint((socket) => sockets.push(socket.resume()));
    const { proxy: made, seen } = proxy();
    await made.sync([nodePort(port)]);
    const socket = await client(port);
    socket.resume();
    await expect.poll(() => sockets.length, PATIENCE).toBe(1);
    const [near, far] = side === "client" ? [socket, sockets[0] as Socket] : [sockets[0] as Socket, socket];
    const errors: string[] = [];
    far.on("error", (error: NodeJS.ErrnoException) => errors.push(error.code ?? ""));
    const farClosed = closed(far);
    near.resetAndDestroy();
    expect(await farClosed).toBe(true);
    expect(errors).toEqual(["ECONNRESET"]);
    await expect.poll(() => seen.connections, PATIENCE).toBe(0);
  });

  test("resets a client whose endpoint refuses, and counts it as unreachable", async () => {
    const { server, port } = await endpoint(() => {});
    const { proxy: made, seen } = proxy();
    await made.sync([nodePort(port)]);
    server.close();
    const socket = await client(port);
    socket.resume();
    expect(await closed(socket)).toBe(true);
    await expect.poll(() => seen.refused, PATIENCE).toEqual({ limit: 0, unreachable: 1 });
    expect(seen.connections).toBe(0);
  });

  test("warns once if the host has no route to endpoints", async () => {
    const { port } = await endpoint(() => {});
    // TCP has no route to the broadcast address, on any host.
    const { proxy: made, seen, logger } = proxy(100, "255.255.255.255");
    await made.sync([nodePort(port)]);
    for (const count of [1, 2]) {
      connect({ host: "127.0.0.1", port }).on("error", () => {});
      await expect.poll(() => seen.refused.unreachable, PATIENCE).toBe(count);
    }
    const warnings = logger.lines.filter(({ level }) => level === "warn");
    expect(warnings.map(({ message }) => message)).toEqual(["no route for loopback NodePorts (logged once)"]);
  });

  test("keeps connections during a sync, and after their NodePort was removed", async () => {
    const { port } = await endpoint((socket) => socket.pipe(socket));
    const { proxy: made, seen } = proxy();
    await made.sync([nodePort(port)]);
    const socket = await client(port);
    const echo = async (word: string) => {
      socket.write(word);
      return String((await once(socket, "data"))[0]);
    };
    expect(await echo("one")).toBe("one");
    await made.sync([nodePort(port)]);
    expect(await echo("two")).toBe("two");
    await made.sync([]);
    expect(seen.listeners).toBe(0);
    await expect(client(port)).rejects.toThrow("ECONNREFUSED");
    expect(await echo("three")).toBe("three");
  });

  test("reports a port in use once, and retries until it is free", async () => {
    const { port } = await endpoint((socket) => socket.end("served"));
    const other = createServer().listen(port, "127.0.0.1");
    await once(other, "listening");
    const { proxy: made, clock, seen } = proxy();
    await made.sync([nodePort(port)]);
    clock.advance(5000);
    await expect.poll(() => clock.timers, PATIENCE).toBe(1);
    expect(seen.bindFailures).toMatchObject([
      { code: "HOST", hint: "another process on this node has the port" },
    ]);
    expect(seen.listeners).toBe(0);
    other.close();
    clock.advance(5000);
    await expect.poll(() => seen.listeners, PATIENCE).toBe(1);
    expect(await text(await client(port))).toBe("served");
  });

  test("resets connections beyond the limit, and no others", async () => {
    const { port } = await endpoint((socket) => socket.pipe(socket));
    const { proxy: made, seen } = proxy(1);
    await made.sync([nodePort(port)]);
    const first = await client(port);
    await expect.poll(() => seen.connections, PATIENCE).toBe(1);
    const second = connect({ host: "127.0.0.1", port });
    const error = await new Promise((resolve) => second.resume().once("error", resolve));
    expect(error).toMatchObject({ code: "ECONNRESET" });
    expect(seen.refused).toEqual({ limit: 1, unreachable: 0 });
    first.write("still here");
    expect(String((await once(first, "data"))[0])).toBe("still here");
  });

  test("resets every connection when it is closed", async () => {
    const { port } = await endpoint((socket) => socket.resume());
    const { proxy: made } = proxy();
    await made.sync([nodePort(port)]);
    const socket = await client(port);
    socket.resume();
    const socketClosed = closed(socket);
    await made.close();
    expect(await socketClosed).toBe(true);
  });
});
