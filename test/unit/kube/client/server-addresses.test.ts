import { EventEmitter } from "node:events";
import { text } from "node:stream/consumers";
import { afterEach, expect, test } from "vitest";
import { ApiClient } from "../../../../src/kube/client/client.ts";
import { loadConnection } from "../../../../src/kube/client/load-connection.ts";
import { ServerAddresses } from "../../../../src/kube/client/server-addresses.ts";
import { StubApi } from "../../../support/stub-api/stub-api.ts";

type FollowedSocket = Parameters<ServerAddresses["follow"]>[1];

function socket(state: Partial<FollowedSocket>): FollowedSocket & EventEmitter {
  return Object.assign(new EventEmitter(), {
    connecting: false,
    remoteAddress: undefined,
    ...state,
  }) as never;
}

const texts = (servers: ServerAddresses) => servers.all().map(({ address, port }) => `${address} ${port}`);

test.each([
  ["https://192.0.2.9:6443", "192.0.2.9 6443"],
  ["https://[FD00::9]", "fd00::9 443"],
  ["http://192.0.2.9", "192.0.2.9 80"],
  ["socks5://192.0.2.9", "192.0.2.9 1080"],
])("%s leads to %s, before a connection is made", (url, expected) => {
  const servers = new ServerAddresses();
  servers.follow(new URL(url), socket({ connecting: true }));
  expect(texts(servers)).toEqual([expected]);
});

test("a name leads to every address that it is resolved to, answered or not", () => {
  const servers = new ServerAddresses();
  const opening = socket({ connecting: true });
  servers.follow(new URL("https://api.example:6443"), opening);
  expect(texts(servers)).toEqual([]);
  opening.emit("lookup", null, "192.0.2.9", 4, "api.example");
  opening.emit("lookup", null, "fd00::9", 6, "api.example");
  opening.emit("lookup", new Error("no address"), undefined, undefined, "api.example");
  expect(texts(servers)).toEqual(["192.0.2.9 6443", "fd00::9 6443"]);
});

test("an open connection, such as a proxy's tunnel, leads to the address at its other end", () => {
  const servers = new ServerAddresses();
  servers.follow(new URL("http://proxy.example:3128"), socket({ remoteAddress: "192.0.2.8" }));
  servers.follow(new URL("http://proxy.example:3128"), socket({ remoteAddress: undefined }));
  expect(texts(servers)).toEqual(["192.0.2.8 3128"]);
});

test("the addresses that were seen last are kept, 64 at most", () => {
  const servers = new ServerAddresses();
  const see = (last: number) => servers.follow(new URL(`https://192.0.2.${last}`), socket({}));
  for (let last = 1; last <= 64; last++) see(last);
  see(1);
  see(65);
  expect(servers.all()).toHaveLength(64);
  expect(texts(servers)).toEqual(expect.arrayContaining(["192.0.2.1 443", "192.0.2.65 443"]));
  expect(texts(servers)).not.toContain("192.0.2.2 443");
});

let api: StubApi | undefined;
let client: ApiClient | undefined;
afterEach(async () => {
  client?.close();
  await api?.close();
});

test("a client's connections are followed by name and by address, kept ones too", async () => {
  api = await StubApi.start();
  const { port } = new URL(api.url);
  for (const host of ["127.0.0.1", "localhost"]) {
    const servers = new ServerAddresses();
    const connect = () => loadConnection({ kubeconfig: "", master: `http://${host}:${port}`, env: {} });
    const opened = new ApiClient({
      userAgent: "nft-proxy/test",
      connect,
      onSocket: (url, its) => servers.follow(url, its),
    });
    client = opened;
    for (const path of ["/api/v1/services", "/api/v1/nodes"]) {
      const { body } = await opened.request({ method: "GET", path, signal: AbortSignal.timeout(5000) });
      await text(body);
    }
    expect(texts(servers), host).toContain(`127.0.0.1 ${port}`);
    opened.close();
  }
});
