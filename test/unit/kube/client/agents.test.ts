import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { asApiFailure } from "../../../../src/kube/client/api-failure.ts";
import { ApiClient } from "../../../../src/kube/client/client.ts";
import { loadConnection } from "../../../../src/kube/client/load-connection.ts";
import { type Authority, makeAuthority } from "../../../support/stub-api/certificates.ts";
import { StubApi } from "../../../support/stub-api/stub-api.ts";
import { type StubProxy, startHttpProxy, startSocksProxy } from "../../../support/stub-proxy.ts";

const directory = mkdtempSync(join(tmpdir(), "proxy-"));
let authority: Authority;
let api: StubApi;
let secureApi: StubApi;
let proxy: StubProxy | undefined;
let client: ApiClient | undefined;

beforeAll(async () => {
  authority = makeAuthority();
  api = await StubApi.start({});
  secureApi = await StubApi.start({ certificate: authority.server });
});
afterEach(() => {
  client?.close();
  proxy?.close();
});
afterAll(async () => {
  await api.close();
  await secureApi.close();
  rmSync(directory, { recursive: true });
});

function kubeconfig(cluster: object): string {
  const path = join(directory, "kubeconfig");
  const context = { name: "default", context: { cluster: "default" } };
  const clusters = [{ name: "default", cluster }];
  writeFileSync(path, JSON.stringify({ "current-context": "default", contexts: [context], clusters }));
  return path;
}

/** The status of a small request. */
async function ask(
  given: { kubeconfig?: string; master?: string; env?: Record<string, string> },
  connectWithin?: number,
): Promise<number> {
  client = new ApiClient({
    userAgent: "nft-proxy/test",
    connect: () => loadConnection({ kubeconfig: "", master: "", env: {}, ...given }),
    ...(connectWithin === undefined ? {} : { limits: { connectWithin } }),
  });
  const signal = new AbortController().signal;
  const answer = await client.request({ method: "GET", path: "/api/v1/services", signal });
  await text(answer.body);
  return answer.status;
}

/** Why the request fails, and the code of the system's error. */
async function failure(
  cluster: object,
  connectWithin?: number,
): Promise<readonly [message: string, code: unknown]> {
  const error = asApiFailure(
    await ask({ kubeconfig: kubeconfig(cluster) }, connectWithin).catch((cause) => cause),
  );
  return [error.message, (error.cause as { readonly code?: unknown }).code];
}

const httpProxy = (target: number) => startHttpProxy(target);

describe("a kubeconfig's proxy-url", () => {
  test.each([
    ["http", "http", httpProxy, "http://127.0.0.1", ""],
    ["https", "http", httpProxy, "http://127.0.0.1", ""],
    ["https with a password", "http", httpProxy, "http://me:p%40ss@127.0.0.1", `Basic ${btoa("me:p@ss")}`],
    ["http", "socks5", startSocksProxy, "socks5://127.0.0.1", ""],
    ["https with a password", "socks5", startSocksProxy, "socks5://me:p%40ss@127.0.0.1", "me:p@ss"],
  ])(
    "leads to an API server by %s through an %s proxy",
    async (scheme, _kind, startProxy, url, credentials) => {
      const server = scheme === "http" ? api : secureApi;
      proxy = await startProxy(server.port);
      const trust = { "certificate-authority-data": btoa(authority.ca) };
      // The proxy leads everything there: an address for which the certificate is valid, or a name that it
      // alone resolves.
      const end = scheme === "http" ? `api.example:${server.port}` : `127.0.0.1:${server.port}`;
      const cluster = {
        server: `${server.url.split(":")[0]}://${end}`,
        "proxy-url": `${url}:${proxy.port}`,
        ...trust,
      };
      expect(await ask({ kubeconfig: kubeconfig(cluster) })).toBe(200);
      expect(proxy.asked).toEqual([{ end, credentials }]);
    },
  );

  test("is used for an IPv6 address, in brackets", async () => {
    proxy = await startHttpProxy(api.port);
    const cluster = { server: "http://[2001:db8::1]:6443", "proxy-url": `http://127.0.0.1:${proxy.port}` };
    expect(await ask({ kubeconfig: kubeconfig(cluster) })).toBe(200);
    expect(proxy.asked).toEqual([{ end: "[2001:db8::1]:6443", credentials: "" }]);
  });

  test("keeps its tunnel for the next request", async () => {
    proxy = await startHttpProxy(api.port);
    await ask({ master: "http://api.example", env: { HTTP_PROXY: `http://127.0.0.1:${proxy.port}` } });
    const again = { method: "GET", path: "/api/v1/services", signal: new AbortController().signal } as const;
    await text((await (client as ApiClient).request(again)).body);
    expect(proxy.asked).toHaveLength(1);
  });

  test("does not weaken the verification of the API server's certificate", async () => {
    proxy = await startHttpProxy(secureApi.port);
    const cluster = { server: "https://api.example", "proxy-url": `http://127.0.0.1:${proxy.port}` };
    const trust = { "certificate-authority-data": btoa(authority.ca) };
    expect((await failure(cluster))[0]).toContain("certificate");
    expect((await failure({ ...cluster, ...trust }))[0]).toContain("does not match certificate's altnames");
  });

  test("that is not a URL is refused without its text, which may contain a password", async () => {
    const path = kubeconfig({ server: api.url, "proxy-url": "ftp://me:secret@proxy" });
    await expect(ask({ kubeconfig: path })).rejects.toThrow(
      `the kubeconfig ${path} cannot be used: proxy-url is not the URL of an http, https or socks5 proxy`,
    );
  });
});

describe("a failing proxy is named, without its password", () => {
  let silent: Server;
  beforeAll(() => {
    silent = createServer(() => {}).listen(0, "127.0.0.1");
  });
  afterAll(() => void silent.close());

  test("when it refuses", async () => {
    proxy = await startHttpProxy({ refusal: "407 Proxy Authentication Required" });
    const url = `http://me:secret@127.0.0.1:${proxy.port}`;
    const said = `the proxy http://127.0.0.1:${proxy.port}: HTTP 407 Proxy Authentication Required`;
    expect(await failure({ server: "https://api.example", "proxy-url": url })).toEqual([said, undefined]);
  });

  test.each(["http", "socks5"])("when its port is closed (%s)", async (scheme) => {
    const closed = await startHttpProxy(1);
    closed.close();
    const cluster = {
      server: "https://api.example",
      "proxy-url": `${scheme}://me:secret@127.0.0.1:${closed.port}`,
    };
    const said = `the proxy ${scheme}://127.0.0.1:${closed.port}: connect ECONNREFUSED 127.0.0.1:${closed.port}`;
    expect(await failure(cluster)).toEqual([said, "ECONNREFUSED"]);
  });

  test.each(["http", "socks5"])("when it stays silent (%s)", async (scheme) => {
    const { port } = silent.address() as { port: number };
    const cluster = { server: "https://api.example", "proxy-url": `${scheme}://127.0.0.1:${port}` };
    expect((await failure(cluster, 50))[0]).toBe(
      `the proxy ${scheme}://127.0.0.1:${port}: no connection within 50 ms`,
    );
  });

  test("when its own certificate is not trusted", async () => {
    proxy = await startHttpProxy(api.port, authority);
    const [said] = await failure({
      server: "http://api.example",
      "proxy-url": `https://127.0.0.1:${proxy.port}`,
    });
    expect(said).toMatch(/^the proxy https:\/\/127\.0\.0\.1:\d+: .*certificate/);
  });

  test("when there is no TLS behind it", async () => {
    proxy = await startHttpProxy((silent.address() as { port: number }).port);
    const cluster = { server: "https://api.example", "proxy-url": `http://127.0.0.1:${proxy.port}` };
    expect((await failure(cluster, 1000))[0]).toBe("no TLS handshake within 1000 ms");
  });
});
