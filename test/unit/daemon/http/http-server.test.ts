import { request } from "node:http";
import { type AddressInfo, connect, type Server, type Socket } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { AppError } from "../../../../src/base/errors.ts";
import {
  ConnectionLimit,
  formatListenAddress,
  listenAddress,
  openHttpServer,
  type Route,
  type Routes,
  textAnswer,
} from "../../../../src/daemon/http/http-server.ts";
import { retryingServer } from "../../../../src/daemon/http/retrying-server.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { memoryLogger } from "../../../support/memory-logger.ts";

/** Vitest's default of one second is too short for a slow machine. */
const PATIENCE = { timeout: 30_000 };

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((server) => server.close()));
});

const routes: Routes = new Map<string, Route>([
  ["/ok", (query) => textAnswer(`ok ${query.get("a")}`)],
  [
    "/throws",
    () => {
      throw new Error("secret detail");
    },
  ],
]);

/** A limit that counts the open connections. */
class CountedConnections extends ConnectionLimit {
  count = 0;

  override add(socket: Socket): void {
    this.count++;
    socket.once("close", () => {
      this.count--;
    });
    super.add(socket);
  }
}

async function serve(
  table: Routes = routes,
  logger = memoryLogger(),
  limit = new ConnectionLimit(100),
  longestIdle = 60_000,
) {
  const address = { host: "127.0.0.1", port: 0 };
  const opened = await openHttpServer(address, (path) => table.get(path), logger, limit, longestIdle);
  open.push(opened);
  return { close: opened.close, port: portOf(opened.server) };
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}

function ask(port: number, path: string, method = "GET", headers: Record<string, string> = {}) {
  return new Promise<{ status: number | undefined; headers: NodeJS.Dict<string | string[]>; body: string }>(
    (resolve, reject) => {
      const sent = request({ host: "127.0.0.1", port, path, method, headers }, async (response) => {
        let body = "";
        for await (const chunk of response) body += String(chunk);
        resolve({ status: response.statusCode, headers: response.headers, body });
      });
      sent.on("error", reject).end();
    },
  );
}

describe("openHttpServer", () => {
  test("answers a route with its query, and sends headers against sniffing, caching and embedding", async () => {
    const { port } = await serve();
    const { status, headers, body } = await ask(port, "/ok?a=1");
    expect([status, body]).toEqual([200, "ok 1"]);
    expect(headers).toMatchObject({
      "content-type": "text/plain; charset=utf-8",
      "x-content-type-options": "nosniff",
      "cache-control": "no-store",
      "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    });
  });

  test("still answers when it is full of idle connections, by closing the oldest", async () => {
    const server = await serve(routes, memoryLogger(), new ConnectionLimit(3));
    const idle = Array.from({ length: 3 }, () => connect(server.port, "127.0.0.1").on("error", () => {}));
    const ended = idle.map((socket) => new Promise<void>((resolve) => socket.once("close", () => resolve())));
    await Promise.all(idle.map((socket) => new Promise((resolve) => socket.once("connect", resolve))));
    expect((await ask(server.port, "/ok?a=1")).body).toBe("ok 1");
    await ended[0];
    expect(idle.map(({ destroyed }) => destroyed)).toEqual([true, false, false]);
  });

  test("closes the oldest connection of several servers that share a limit", async () => {
    const limit = new ConnectionLimit(4);
    const servers = await Promise.all([1, 2, 3].map(() => serve(routes, memoryLogger(), limit)));
    const closed: number[] = [];
    for (const [index, { port }] of [...servers, ...servers].entries()) {
      const socket = connect(port, "127.0.0.1").on("error", () => {});
      socket.once("close", () => closed.push(index));
      await new Promise((resolve) => socket.once("connect", resolve));
    }
    await expect.poll(() => closed).toEqual([0, 1]);
    for (const { port } of servers) expect((await ask(port, "/ok?a=1")).body).toBe("ok 1");
  });

  test("disconnects a client that does not read its answer", async () => {
    const large = new Map<string, Route>([["/large", () => textAnswer("x".repeat(20_000_000))]]);
    const limit = new CountedConnections(100);
    const server = await serve(large, memoryLogger(), limit, 50);
    const socket = connect(server.port, "127.0.0.1").on("error", () => {});
    socket.pause().write("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    await expect.poll(() => limit.count).toBe(1);
    await expect.poll(() => limit.count).toBe(0);
    socket.destroy();
  });

  test("serves other clients while it makes the pieces of an answer that one reads", async () => {
    const made: number[] = [];
    function* pieces() {
      for (let n = 0; n < 300; n++) {
        made.push(n);
        yield "x".repeat(100_000);
      }
    }
    const streamed = new Map<string, Route>([
      ["/pieces", () => ({ ...textAnswer(""), pieces: pieces() })],
      ["/ok", () => textAnswer("ok")],
    ]);
    const { port } = await serve(streamed);
    const reads = ask(port, "/pieces");
    await expect.poll(() => made.length).toBeGreaterThan(0);
    expect((await ask(port, "/ok")).body).toBe("ok");
    expect(made.length).toBeLessThan(300);
    expect((await reads).body.length).toBe(30_000_000);
  });

  test("makes no more pieces for a client that has left, and logs nothing", async () => {
    let made = 0;
    function* pieces() {
      for (made = 0; made < 10_000; made++) yield "x".repeat(100_000);
    }
    const logger = memoryLogger();
    const limit = new CountedConnections(100);
    const server = await serve(
      new Map([["/pieces", () => ({ ...textAnswer(""), pieces: pieces() })]]),
      logger,
      limit,
    );
    const socket = connect(server.port, "127.0.0.1").on("error", () => {});
    socket.write("GET /pieces HTTP/1.1\r\nHost: a\r\n\r\n");
    await new Promise((resolve) => socket.once("data", resolve));
    socket.destroy();
    await expect.poll(() => limit.count).toBe(0);
    const before = made;
    expect(before).toBeLessThan(10_000);
    await new Promise((resolve) => setImmediate(resolve));
    expect([made, logger.lines]).toEqual([before, []]);
  });

  test("breaks an answer off and logs the reason if a piece cannot be made", async () => {
    function* pieces() {
      yield "x".repeat(100_000);
      throw new Error("secret detail");
    }
    const logger = memoryLogger();
    const { port } = await serve(
      new Map([["/pieces", () => ({ ...textAnswer(""), pieces: pieces() })]]),
      logger,
    );
    await expect(fetch(`http://127.0.0.1:${port}/pieces`).then((answer) => answer.text())).rejects.toThrow();
    expect(logger.lines).toMatchObject([
      { level: "error", fields: { path: "/pieces", error: "secret detail" } },
    ]);
  });

  test("answers HEAD with the headers of GET and no body", async () => {
    const { port } = await serve();
    const { status, headers, body } = await ask(port, "/ok?a=1", "HEAD");
    expect([status, headers["content-length"], body]).toEqual([200, "4", ""]);
  });

  test.each([
    ["GET", "/nothing", 404],
    ["GET", "/ok/", 404],
    ["GET", "/__proto__", 404],
    ["POST", "/ok", 405],
    ["DELETE", "/ok", 405],
  ])("answers %s %s with %i", async (method, path, status) => {
    const { port } = await serve();
    expect((await ask(port, path, method)).status).toBe(status);
  });

  test("closes connections of the client with the most, never those of this host or of a client with fewer", async () => {
    const server = await serve(routes, memoryLogger(), new ConnectionLimit(6));
    const closed: string[] = [];
    const open = async (localAddress: string, name: string) => {
      const socket = connect({ port: server.port, host: "127.0.0.1", localAddress }).on("error", () => {});
      socket.once("close", () => closed.push(name));
      await new Promise((resolve) => socket.once("connect", resolve));
    };
    // The client connects from the same address as the server's, like the kubelet's probes.
    await open("127.0.0.1", "probe");
    await open("127.0.0.3", "neighbour");
    for (let n = 0; n < 20; n++) await open("127.0.0.2", `flood ${n}`);
    await expect.poll(() => closed.length, PATIENCE).toBe(16);
    expect(closed.filter((name) => !name.startsWith("flood"))).toEqual([]);
    expect((await ask(server.port, "/ok?a=1")).body).toBe("ok 1");
  });

  test.each([
    ["evil.example:10249", 421],
    ["evil.example", 421],
    ["127.0.0.1.evil.example", 421],
    ["localhost:8080", 200],
    ["127.0.0.1:10249", 200],
    ["[::1]:10249", 200],
  ])("answers a request for the host %s at a loopback address with %i", async (host, status) => {
    const { port } = await serve();
    expect((await ask(port, "/ok", "GET", { host })).status).toBe(status);
  });

  test("accepts any host name in requests at other addresses", async () => {
    const server = await openHttpServer(
      { host: "0.0.0.0", port: 0 },
      (path) => routes.get(path),
      memoryLogger(),
    );
    open.push(server);
    const port = portOf(server.server);
    expect((await ask(port, "/ok", "GET", { host: "node-1.example" })).status).toBe(200);
  });

  test("answers 500 without details if a route throws, and logs the details", async () => {
    const logger = memoryLogger();
    const { port } = await serve(routes, logger);
    expect(await ask(port, "/throws")).toMatchObject({ status: 500, body: "internal error\n" });
    expect(logger.lines).toMatchObject([
      { level: "error", fields: { path: "/throws", error: "secret detail" } },
    ]);
  });

  test.each([
    ["kept alive", "GET /ok HTTP/1.1\r\nHost: x\r\n\r\n"],
    ["in the middle of a request", "GET /ok HTTP/1.1\r\nHost: x\r\n\r\nGET /o"],
  ])("close() ends a connection that is %s", async (_, sent) => {
    const server = await serve();
    const socket = connect(server.port, "127.0.0.1");
    const ended = new Promise((resolve) => socket.once("close", resolve));
    socket.write(sent);
    await new Promise((resolve) => socket.once("data", resolve));
    await server.close();
    await ended;
  });

  test("throws an AppError that names the address if the port is in use", async () => {
    const { port } = await serve();
    const error = await openHttpServer({ host: "127.0.0.1", port }, () => undefined, memoryLogger()).catch(
      (e) => e,
    );
    expect(error).toBeInstanceOf(AppError);
    expect(error.message).toContain(`cannot listen on 127.0.0.1:${port}: `);
    expect(error.hint).toContain("kube-proxy");
  });

  test.each([
    ["0.0.0.0", "*:80"],
    ["::", "*:80"],
    ["", "*:80"],
    ["127.0.0.1", "127.0.0.1:80"],
    ["fd00::1", "[fd00::1]:80"],
  ])("listens for the address %o on %s", (address, text) => {
    expect(formatListenAddress(listenAddress(address, 80))).toBe(text);
  });
});

describe("retryingServer", () => {
  function kept(port: number, hardFail = false) {
    const clock = new ManualClock();
    const failures: unknown[] = [];
    const logger = memoryLogger();
    const address = { host: "127.0.0.1", port };
    const server = retryingServer({
      name: "health",
      address,
      open: () => openHttpServer(address, (path) => routes.get(path), logger),
      clock,
      logger,
      hardFail,
      onFailure: (error) => failures.push(error),
    });
    open.push(server);
    return { server, clock, failures, logger };
  }

  test("retries until it can listen, and reports the failure once", async () => {
    const other = await serve();
    const { server, clock, failures, logger } = kept(other.port);
    await server.start();
    await server.start();
    expect(failures).toHaveLength(1);
    const lines = () =>
      logger.lines.filter(({ level }) => level !== "debug").map(({ fields, ...line }) => line);
    const warning = { level: "warn", message: "cannot bind, retrying (logged once)" };
    expect(lines()).toEqual([warning]);
    await other.close();
    clock.advance(5000);
    await expect
      .poll(() => lines().slice(0, 3))
      .toMatchObject([warning, { message: "bound after failures" }, { message: "server listening" }]);
    expect((await ask(other.port, "/ok?a=2")).body).toBe("ok 2");
  });

  test("does not retry after close()", async () => {
    const other = await serve();
    const { server, clock } = kept(other.port);
    await server.start();
    await server.close();
    expect(clock.timers).toBe(0);
  });

  test("start() throws the first failure with hardFail", async () => {
    const other = await serve();
    const { server, clock, failures } = kept(other.port, true);
    await expect(server.start()).rejects.toThrow("cannot listen on");
    expect([failures.length, clock.timers]).toEqual([0, 0]);
  });
});
