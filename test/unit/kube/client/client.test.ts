import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, connect as connectTo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type ApiFailure, asApiFailure } from "../../../../src/kube/client/api-failure.ts";
import { ApiClient, type ApiRequestOutcome } from "../../../../src/kube/client/client.ts";
import { type ConnectionOptions, loadConnection } from "../../../../src/kube/client/load-connection.ts";
import { type Authority, hasOpenssl, makeAuthority } from "../../../support/stub-api/certificates.ts";
import { StubApi, type StubApiOptions } from "../../../support/stub-api/stub-api.ts";

let directory: string;
let api: StubApi;
let client: ApiClient;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "client-"));
});

afterEach(async () => {
  client?.close();
  await api?.close();
  rmSync(directory, { recursive: true });
});

/** Writes a file as the kubelet replaces one: aside, then moved over the old one. */
function write(name: string, text: string): string {
  writeFileSync(join(directory, `${name}.new`), text, { mode: 0o755 });
  renameSync(join(directory, `${name}.new`), join(directory, name));
  return join(directory, name);
}

async function start(options: StubApiOptions, connection: () => Partial<ConnectionOptions>): Promise<void> {
  api = await StubApi.start(options);
  const given = { kubeconfig: "", master: "", env: {}, ...connection() };
  client = new ApiClient({ userAgent: "nft-proxy/test", connect: () => loadConnection(given) });
}

/** The failure of a small request to a server that is given up after 50 ms. */
async function failureOf(master: string): Promise<ApiFailure> {
  const connect = () => loadConnection({ kubeconfig: "", master, env: {} });
  client = new ApiClient({ userAgent: "nft-proxy/test", connect, limits: { connectWithin: 50 } });
  return asApiFailure(await ask().catch((error) => error));
}

/** The status of a small request. */
async function ask(path = "/api/v1/services"): Promise<number> {
  const answer = await client.request({ method: "GET", path, signal: new AbortController().signal });
  await text(answer.body);
  return answer.status;
}

function kubeconfig(user: object, cluster: object = {}): string {
  return write(
    "kubeconfig",
    JSON.stringify({
      "current-context": "default",
      contexts: [
        { name: "other", context: { cluster: "other", user: "other" } },
        { name: "default", context: { cluster: "default", user: "default" } },
      ],
      clusters: [
        { name: "other", cluster: { server: "https://192.0.2.1:6443" } },
        { name: "default", cluster: { server: api.url, ...cluster } },
      ],
      users: [
        { name: "other", user: { token: "other" } },
        { name: "default", user },
      ],
    }),
  );
}

/** A kubeconfig whose current context names a user that it does not have. */
function strangersKubeconfig(): string {
  const path = kubeconfig({ token: "abc" });
  return write(
    "kubeconfig",
    readFileSync(path, "utf8").replace(
      '"cluster":"default","user":"default"',
      '"cluster":"default","user":"nobody"',
    ),
  );
}

const base64 = (text: string) => Buffer.from(text).toString("base64");

describe("the API client over http", () => {
  test("uses one connection for request after request, also after an error", async () => {
    await start({}, () => ({ master: api.url }));
    expect([await ask(), await ask("/nowhere"), await ask()]).toEqual([200, 404, 200]);
    expect(api.connections).toBe(1);
    expect(api.requests[0]?.headers).not.toHaveProperty("authorization");
  });

  test("closes connections without a request, and no others, with closeIdle()", async () => {
    await start({}, () => ({ master: api.url }));
    const { signal } = new AbortController();
    const watch = { watch: "1", resourceVersion: "0", timeoutSeconds: "60" };
    const open = await client.request({ method: "GET", path: "/api/v1/services", query: watch, signal });
    expect([await ask(), api.connections]).toEqual([200, 2]);
    client.closeIdle();
    expect([await ask(), await ask(), api.connections]).toEqual([200, 200, 3]);
    const [first] = api.cluster.watches("services");
    first?.end();
    await text(open.body);
  });

  test("replaces an old connection", async () => {
    api = await StubApi.start();
    const connect = () => loadConnection({ kubeconfig: "", master: api.url, env: {} });
    client = new ApiClient({ userAgent: "nft-proxy/test", connect, limits: { replaceAfter: 100 } });
    expect([await ask(), await ask(), api.connections]).toEqual([200, 200, 1]);
    await new Promise((resolve) => setTimeout(resolve, 110));
    expect([await ask(), await ask(), api.connections]).toEqual([200, 200, 2]);
  });

  test("creates an Event, and patches it later", async () => {
    await start({}, () => ({ master: api.url }));
    const path = "/apis/events.k8s.io/v1/namespaces/default/events";
    const { signal } = new AbortController();
    const event = { metadata: { name: "e1" }, note: "déjà vu" };
    const created = await client.request({ method: "POST", path, body: event, signal });
    const patch = { series: { count: 2 } };
    const patched = await client.request({ method: "PATCH", path: `${path}/e1`, body: patch, signal });
    expect([created.status, patched.status]).toEqual([201, 200]);
    for (const { body } of [created, patched]) await text(body);
    expect(api.events).toEqual([{ ...event, ...patch }]);
    expect(api.requests.map(({ headers }) => headers["content-type"])).toEqual([
      "application/json",
      "application/merge-patch+json",
    ]);
  });

  test("reports each request with method, host, status and duration, and a broken connection as <error>", async () => {
    api = await StubApi.start({});
    const seen: ApiRequestOutcome[] = [];
    const connect = () => loadConnection({ kubeconfig: "", master: api.url, env: {} });
    client = new ApiClient({
      userAgent: "nft-proxy/test",
      connect,
      onRequest: (outcome) => seen.push(outcome),
    });
    await ask();
    await ask("/nowhere");
    api.addFault({ fault: { kind: "reset" } });
    await expect(ask()).rejects.toThrow();
    const { host } = new URL(api.url);
    expect(seen.map(({ method, code }) => `${method} ${code}`)).toEqual([
      "GET 200",
      "GET 404",
      "GET <error>",
    ]);
    expect(new Set(seen.map((outcome) => outcome.host))).toEqual(new Set([host]));
    expect(seen.every(({ seconds }) => seconds > 0 && seconds < 60)).toBe(true);
  });

  test("reads a list that the server compressed, and asks for a watch without compression", async () => {
    await start({}, () => ({ master: api.url }));
    api.compresses = true;
    const { signal } = new AbortController();
    const list = await client.request({ method: "GET", path: "/api/v1/services", signal });
    expect(list.headers["content-encoding"]).toBe("gzip");
    expect(JSON.parse(await text(list.body))).toMatchObject({ kind: "ServiceList", items: [] });
    const query = { watch: "true", resourceVersion: "1" };
    const controller = new AbortController();
    const watch = client.request({
      method: "GET",
      path: "/api/v1/services",
      query,
      signal: controller.signal,
    });
    await expect.poll(() => api.requests.length).toBe(2);
    controller.abort();
    await watch.catch(() => undefined);
    expect(api.requests.map(({ headers }) => headers["accept-encoding"])).toEqual(["gzip", undefined]);
  });

  const zipped = gzipSync("x".repeat(1000));
  test.each([
    ["breaks off", zipped.subarray(0, 20)],
    ["is not gzip", Buffer.from("{}")],
  ])("fails for an answer that is said to be compressed and %s", async (_how, body) => {
    const server = createHttpServer((_request, response) => {
      response.writeHead(200, { "content-encoding": "gzip" }).end(body);
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    await start({}, () => ({ master: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }));
    await expect(ask()).rejects.toThrow();
    server.close();
  });

  test("ends a compressed answer that stalls when its signal is aborted", async () => {
    const server = createHttpServer((_request, response) => {
      response.writeHead(200, { "content-encoding": "gzip" }).write(zipped.subarray(0, 20));
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    await start({}, () => ({ master: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }));
    const controller = new AbortController();
    const answer = await client.request({ method: "GET", path: "/", signal: controller.signal });
    const read = text(answer.body);
    controller.abort(new Error("enough"));
    await expect(read).rejects.toThrow("aborted");
    server.close();
  });

  test("asks a server that lives below a path", async () => {
    await start({}, () => ({ master: `${api.url}/k8s/clusters/c-1/` }));
    expect(await ask()).toBe(404);
    expect(api.requests[0]?.path).toBe("/k8s/clusters/c-1/api/v1/services");
  });

  test("ends a request without an answer when its signal is aborted", async () => {
    await start({}, () => ({ master: api.url }));
    api.addFault({ fault: { kind: "hang" } });
    const controller = new AbortController();
    const asked = client.request({ method: "GET", path: "/api/v1/services", signal: controller.signal });
    controller.abort(new Error("enough"));
    await expect(asked).rejects.toThrow();
  });

  test("gives up a host that does not answer, as one that cannot be reached", async () => {
    // The kernel drops connections to a listener whose queue is full: it has two, and never accepts them.
    const script = `const server = require("node:net").createServer().listen(0, "127.0.0.1", 1, () => {
      require("node:fs").writeSync(1, String(server.address().port));
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    })`;
    const listener = spawn(process.execPath, ["-e", script], { stdio: ["ignore", "pipe", "inherit"] });
    const port = Number(await once(listener.stdout, "data"));
    const queued = [connectTo(port, "127.0.0.1"), connectTo(port, "127.0.0.1")];
    for (const socket of queued) await once(socket, "connect");
    const error = await failureOf(`http://127.0.0.1:${port}`);
    expect(error).toMatchObject({ kind: "connection", message: "no connection within 50 ms" });
    expect(error.cause).toMatchObject({ code: "ETIMEDOUT" });
    for (const socket of queued) socket.destroy();
    listener.kill("SIGKILL");
  });

  test("gives up a server that accepts the connection and stays silent, as one that is overloaded", async () => {
    const silent = createServer(() => {}).listen(0, "127.0.0.1");
    await once(silent, "listening");
    const error = await failureOf(`https://127.0.0.1:${(silent.address() as AddressInfo).port}`);
    expect(error).toMatchObject({ kind: "connection", message: "no TLS handshake within 50 ms" });
    expect(error.cause).not.toHaveProperty("code");
    silent.close();
  });

  test("ends a request that waits for a credential plugin when its signal is aborted", async () => {
    await start({}, () => ({ kubeconfig: kubeconfig({ exec: { command: "sleep", args: ["1"] } }) }));
    const asked = client.request({ method: "GET", path: "/", signal: AbortSignal.timeout(50) });
    await expect(asked).rejects.toThrow("timeout");
  });
});

describe("the API client with a kubeconfig", () => {
  test("sends the current context's token, to the server of --master rather than its own", async () => {
    await start({}, () => ({
      kubeconfig: kubeconfig({ token: "abc" }, { server: "http://192.0.2.1" }),
      master: api.url,
    }));
    expect(await ask()).toBe(200);
    expect(api.requests[0]?.headers.authorization).toBe("Bearer abc");
  });

  test("reads a token file, as kubeadm's kubeconfig for kube-proxy has it, for each request", async () => {
    await start({}, () => {
      write("token", "one\n");
      return { kubeconfig: kubeconfig({ tokenFile: "token" }) };
    });
    await ask();
    write("token", "two\n");
    await ask();
    write("token", "");
    await ask();
    rmSync(join(directory, "token"));
    await ask();
    const sent = api.requests.map(({ headers }) => headers.authorization);
    expect(sent).toEqual(["Bearer one", "Bearer two", "Bearer two", "Bearer two"]);
  });

  test("takes data in the kubeconfig rather than the file that is named beside it", async () => {
    await start({}, () => {
      const authority = { "certificate-authority": "none", "certificate-authority-data": base64("data") };
      const user = { "client-certificate": "none", "client-certificate-data": base64("cert") };
      const key = { "client-key": "none", "client-key-data": base64("key") };
      return { kubeconfig: kubeconfig({ ...user, ...key }, authority) };
    });
    const kubeconfigFile = join(directory, "kubeconfig");
    const connection = await loadConnection({ kubeconfig: kubeconfigFile, master: "", env: {} });
    const { ca, cert, key } = await connection.credentials();
    expect([ca, cert, key].map(String)).toEqual(["data", "cert", "key"]);
  });

  test.each([
    [{ command: "false" }, "false failed: it wrote nothing to its standard error"],
    [{ command: "sh", args: ["-c", "echo no login >&2; exit 1"] }, "sh failed: no login"],
    [{ command: "echo", args: ["{}"] }, "echo failed: it did not print an ExecCredential with a status"],
    [
      { command: "/no-such-directory/plugin" },
      "/no-such-directory/plugin failed: spawn /no-such-directory/plugin ENOENT",
    ],
  ])("names the credential plugin %j when it fails, with the reason", async (exec, reason) => {
    await start({}, () => ({ kubeconfig: kubeconfig({ exec }) }));
    await expect(ask()).rejects.toThrow(`the credential plugin ${reason}`);
  });

  test("does not start a credential plugin if the token file cannot be read", async () => {
    await start({}, () => ({ kubeconfig: kubeconfig({ tokenFile: "none", exec: { command: "false" } }) }));
    await expect(ask()).rejects.toThrow(`cannot read ${directory}/none`);
  });

  test("reads the kubeconfig again after a 401", async () => {
    api = await StubApi.start();
    let path = kubeconfig({ token: "old" });
    const connect = () => loadConnection({ kubeconfig: path, master: "", env: {} });
    client = new ApiClient({ userAgent: "nft-proxy/test", connect });
    api.tokens.add("old");
    expect(await ask()).toBe(200);
    api.tokens.clear();
    api.tokens.add("new");
    path = write("other", readFileSync(path, "utf8").replace("old", "new"));
    expect([await ask(), await ask(), await ask()]).toEqual([401, 200, 200]);
  });

  test("reads the kubeconfig again when it is replaced, and keeps the old one while the new one is malformed", async () => {
    await start({}, () => ({ kubeconfig: kubeconfig({ token: "old" }) }));
    await ask();
    write("kubeconfig", "{");
    await ask();
    kubeconfig({ token: "new" });
    await ask();
    expect(api.requests.map(({ headers }) => headers.authorization)).toEqual(
      ["old", "old", "new"].map((token) => `Bearer ${token}`),
    );
  });

  test("finds a server that has moved when there was no answer for some time", async () => {
    api = await StubApi.start();
    const moved = await StubApi.start();
    const addresses = [api.url, moved.url];
    const connect = () => loadConnection({ kubeconfig: "", master: addresses.shift() ?? moved.url, env: {} });
    client = new ApiClient({ userAgent: "nft-proxy/test", connect, limits: { reconnectAfter: 50 } });
    expect(await ask()).toBe(200);
    await api.close();
    await expect(ask()).rejects.toThrow();
    await expect(ask()).rejects.toThrow("ECONNREFUSED");
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(await ask()).toBe(200);
    await moved.close();
  });

  test("asks a credential plugin once for as long as its token is good, and again after a 401", async () => {
    const expires = new Date(Date.now() + 3_600_000).toISOString();
    await start({}, () => {
      write(
        "plugin",
        `#!/bin/sh
printf x >> "$COUNT"
n=$(wc -c < "$COUNT")
case "$KUBERNETES_EXEC_INFO" in *ExecCredential*) ;; *) exit 1 ;; esac
printf '{"kind":"ExecCredential","status":{"token":"t%d","expirationTimestamp":"${expires}"}}' "$n"
`,
      );
      const env = [{ name: "COUNT", value: join(directory, "count") }];
      const exec = { apiVersion: "client.authentication.k8s.io/v1", command: "./plugin", env };
      return { kubeconfig: kubeconfig({ exec }) };
    });
    api.tokens.add("t1");
    expect([await ask(), await ask()]).toEqual([200, 200]);
    api.tokens.clear();
    api.tokens.add("t2");
    expect([await ask(), await ask()]).toEqual([401, 200]);
  });

  test.each([
    ["sleep", { command: "sleep", args: ["60"] }],
    ["a process that it started", { command: "sh", args: ["-c", "sleep 60 & wait"] }],
    ["a process in a session of its own", { command: "setsid", args: ["--fork", "sleep", "2"] }],
  ])(
    "kills a credential plugin that hangs in %s, and starts one for all requests that wait",
    async (_, exec) => {
      const count = join(directory, "count");
      await start({}, () => {
        write(
          "plugin",
          `#!/bin/sh\nprintf x >> ${count}\nexec ${[exec.command, ...exec.args.map((arg) => `'${arg}'`)].join(" ")}\n`,
        );
        return { kubeconfig: kubeconfig({ exec: { command: "./plugin" } }), pluginLimit: 200 };
      });
      const reason = "plugin failed: it did not end within 0.2 s";
      const all = await Promise.allSettled([ask(), ask(), ask()]);
      for (const one of all)
        expect(one).toMatchObject({
          status: "rejected",
          reason: { message: expect.stringContaining(reason) },
        });
      expect(readFileSync(count, "utf8")).toBe("x");
      await expect(ask()).rejects.toThrow(reason);
      expect(readFileSync(count, "utf8")).toBe("xx");
    },
  );

  test("sends a user name and password, and whom to impersonate", async () => {
    await start({}, () => ({ kubeconfig: kubeconfig({ username: "u", password: "p", as: "me" }) }));
    await ask();
    expect(api.requests[0]?.headers).toMatchObject({
      authorization: `Basic ${base64("u:p")}`,
      "impersonate-user": "me",
    });
  });

  test("impersonates nobody if the name is empty, as client-go does", async () => {
    await start({}, () => ({ kubeconfig: kubeconfig({ token: "abc", as: "" }) }));
    await ask();
    expect(api.requests[0]?.headers).not.toHaveProperty("impersonate-user");
  });

  const refused: [name: string, text: () => string, code: string, reason: string][] = [
    ["text that is not YAML", () => write("kubeconfig", "a: [b"), "BAD_CONFIG", "kubeconfig"],
    ["an empty file", () => write("kubeconfig", ""), "BAD_CONFIG", "it must be an object"],
    ["no current context", () => write("kubeconfig", "contexts: []"), "BAD_CONFIG", 'current-context ""'],
    [
      "a cluster without a server",
      () => kubeconfig({}, { server: "" }),
      "BAD_CONFIG",
      "clusters[1].cluster.server is missing",
    ],
    [
      "a server that is no URL",
      () => kubeconfig({}, { server: "ftp://a" }),
      "BAD_CONFIG",
      "not an http or https URL",
    ],
    ["a proxy that is none", () => kubeconfig({}, { "proxy-url": "ftp://a" }), "BAD_CONFIG", "proxy-url"],
    [
      "a context whose user is missing",
      () => strangersKubeconfig(),
      "BAD_CONFIG",
      'the user "nobody" of the context',
    ],
    [
      "an auth provider",
      () => kubeconfig({ "auth-provider": { name: "gcp" } }),
      "BAD_CONFIG",
      "auth-provider",
    ],
    ["no file", () => join(directory, "none"), "UNREADABLE_INPUT", "none"],
  ];

  test.each(refused)("refuses with the reason: %s", async (_name, path, code, reason) => {
    api = await StubApi.start();
    const loading = loadConnection({ kubeconfig: path(), master: "", env: {} });
    await expect(loading).rejects.toMatchObject({ code, message: expect.stringContaining(reason) });
  });

  test("names the flags to give without a kubeconfig, --master and a cluster", async () => {
    const loading = loadConnection({ kubeconfig: "", master: "", env: {} });
    await expect(loading).rejects.toMatchObject({
      code: "BAD_CONFIG",
      hint: expect.stringContaining("--kubeconfig"),
    });
    await expect(loadConnection({ kubeconfig: "", master: "10.0.0.1:6443", env: {} })).rejects.toMatchObject({
      message: "--master is not an http or https URL",
    });
  });
});

describe.skipIf(!hasOpenssl())("the API client over https", () => {
  let old: Authority;
  let fresh: Authority;

  beforeEach(() => {
    old = makeAuthority();
    fresh = makeAuthority();
  });

  const inCluster = () => ({
    env: { KUBERNETES_SERVICE_HOST: "127.0.0.1", KUBERNETES_SERVICE_PORT: String(api.port) },
    serviceAccount: directory,
  });

  test("uses a Pod's token and CA, and reads them again when they are replaced", async () => {
    write("token", "one");
    write("ca.crt", old.ca);
    await start({ certificate: old.server }, inCluster);
    api.tokens.add("one");
    expect([await ask(), await ask()]).toEqual([200, 200]);
    expect(api.connections).toBe(1);

    api.replaceCertificate(fresh.server);
    api.dropConnections();
    await expect(ask()).rejects.toThrow("certificate");
    write("ca.crt", `${old.ca}${fresh.ca}`);
    expect(await ask()).toBe(200);

    api.tokens.clear();
    api.tokens.add("two");
    expect(await ask()).toBe(401);
    write("token", "two");
    expect(await ask()).toBe(200);
  });

  test("rejects a certificate of another authority, unless the kubeconfig skips verification", async () => {
    await start({ certificate: old.server }, () => ({
      kubeconfig: kubeconfig({ token: "t" }, { "certificate-authority-data": base64(fresh.ca) }),
    }));
    await expect(ask()).rejects.toThrow("certificate");
    const connect = () =>
      loadConnection({
        kubeconfig: kubeconfig({}, { "insecure-skip-tls-verify": true }),
        master: "",
        env: {},
      });
    client = new ApiClient({ userAgent: "nft-proxy/test", connect });
    expect(await ask()).toBe(200);
  });

  test("verifies the certificate for the name that the kubeconfig gives the server", async () => {
    const cluster = { "certificate-authority-data": base64(old.ca), "tls-server-name": "api.example" };
    await start({ certificate: old.server }, () => ({ kubeconfig: kubeconfig({}, cluster) }));
    await expect(ask()).rejects.toThrow("Host: api.example. is not");
  });

  test("shows a client certificate, from data or from files beside the kubeconfig", async () => {
    const trust = { "certificate-authority-data": base64(old.ca) };
    await start({ certificate: old.server, clientCa: old.ca }, () => ({
      kubeconfig: kubeconfig(
        { "client-certificate-data": base64(old.client.cert), "client-key-data": base64(old.client.key) },
        trust,
      ),
    }));
    expect(await ask()).toBe(200);
    client.close();

    write("client.crt", fresh.client.cert);
    write("client.key", fresh.client.key);
    const user = { "client-certificate": "client.crt", "client-key": "client.key" };
    const connect = () => loadConnection({ kubeconfig: kubeconfig(user, trust), master: "", env: {} });
    client = new ApiClient({ userAgent: "nft-proxy/test", connect });
    await expect(ask(), "a stranger's certificate").rejects.toThrow();
    write("client.crt", old.client.cert);
    write("client.key", old.client.key);
    expect(await ask(), "the new files").toBe(200);
  });
});
