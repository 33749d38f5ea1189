import { readFile, writeFile } from "node:fs/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { townList } from "../support/stub-api/town.ts";
import { wrappedNft } from "../support/wrapped-nft.ts";

let lab: DaemonLab;
let daemon: RunningDaemon;
beforeAll(async () => {
  lab = await DaemonLab.create();
  await lab.reach("192.0.2.2");
});
afterAll(() => lab?.close());
beforeEach(async () => {
  await lab.startApi();
  for (const resource of ["nodes", "servicecidrs"] as const)
    lab.cluster.load(resource, townList("town", resource));
  put("web", "10.96.7.1");
});
afterEach(async () => {
  await daemon?.stop();
  expect(daemon?.otherLines ?? []).toEqual([]);
  expect(JSON.stringify(daemon?.log ?? [])).not.toMatch(/\\n\s+at /);
});

function put(name: string, clusterIP: string, spec = {}): void {
  lab.cluster.put("services", apiService(name, { clusterIP, spec }));
  lab.cluster.put("endpointslices", apiSlice(name, ["10.244.1.11", "10.244.2.12"]));
}

/** Listens on kube-proxy's ports, on loopback only. */
const KUBE_PROXY_OF_K3S = `
  const servers = [10249, 10256].map((port) => require("node:net").createServer().listen(port, "127.0.0.1"));
  Promise.all(servers.map((server) => new Promise((listens) => server.once("listening", listens)))).then(() =>
    console.log("listening"));
`;

describe("health", () => {
  test("/healthz is 503 with the reason while nft fails, and 200 afterwards", async () => {
    const flag = await lab.file("nft-works", "");
    // A spare nft that waits for its input fails only at its first transaction.
    const path = await wrappedNft(
      lab,
      "nft-broken",
      `case "$*" in *-f*) input=$(cat);; esac
       [ -e ${flag} ] || { echo "netlink: No buffer space" >&2; exit 1; }
       case "$*" in *-f*) printf '%s' "$input" | nft "$@"; exit;; esac`,
    );
    daemon = lab.start([`--nft-path=${path}`, "--iptables-sync-period=1s", "--iptables-min-sync-period=0s"]);
    await lab.converged();
    expect((await lab.get(10256, "/healthz")).status).toBe(200);
    await lab.lab.exec(["rm", flag]);
    put("more", "10.96.7.3");
    // Until nft has failed, the reason is the slow sync.
    await expect
      .poll(async () => JSON.parse((await lab.get(10256, "/healthz")).body).reasons?.join())
      .toMatch(/the rules have been out of date for \d+ s: .*No buffer space/);
    const health = await lab.get(10256, "/healthz");
    expect(health.status).toBe(503);
    const { healthy, status } = JSON.parse(health.body);
    expect([healthy, status.IPv4.healthy]).toEqual([false, false]);
    expect((await lab.get(10256, "/livez")).status).toBe(503);
    const failures = () => lab.api.events.filter(({ reason }) => reason === "SyncFailed").length;
    await expect.poll(failures).toBeGreaterThan(0);
    expect(await lab.metric("kubeproxy_sync_proxy_rules_nftables_sync_failures_total")).toBeGreaterThan(0);
    await writeFile(flag, "");
    await lab.converged();
    await expect.poll(async () => (await lab.get(10256, "/healthz")).status).toBe(200);
  });

  test("a node about to be deleted is live, but not eligible for new connections", async () => {
    daemon = lab.start();
    await lab.converged();
    await lab.watched();
    const node = lab.cluster.objects("nodes").find(({ metadata }) => metadata.name === "node-1");
    if (node === undefined) throw new Error("no node");
    const taint = { key: "ToBeDeletedByClusterAutoscaler", effect: "NoSchedule" };
    lab.cluster.put("nodes", { ...node, spec: { ...(node.spec as object), taints: [taint] } });
    await expect.poll(async () => (await lab.get(10256, "/healthz")).status).toBe(503);
    expect(JSON.parse((await lab.get(10256, "/healthz")).body)).toMatchObject({
      nodeEligible: false,
      healthy: false,
    });
    expect((await lab.get(10256, "/livez")).status).toBe(200);
    lab.cluster.remove("nodes", node);
    await expect.poll(() => daemon.log.length).toBeGreaterThan(0);
    expect(await lab.kernelText(), "what the Node said stays true").toContain(
      "ip set nodeport-ips 192.0.2.2",
    );
  });

  test("health check node ports report the number of local endpoints", async () => {
    const port = 32_123;
    const spec = { type: "LoadBalancer", externalTrafficPolicy: "Local", healthCheckNodePort: port };
    put("local", "10.96.7.4", spec);
    daemon = lab.start();
    await lab.converged();
    const status = () =>
      lab.get(port, "/", "192.0.2.2").then(
        (reply) => reply.status,
        () => 0,
      );
    await expect.poll(status).toBe(200);
    const answer = await lab.get(port, "/", "192.0.2.2");
    expect([answer.status, answer.headers.get("x-load-balancing-endpoint-weight")]).toEqual([200, "1"]);
    expect(JSON.parse(answer.body)).toEqual({
      service: { namespace: "shop", name: "local" },
      localEndpoints: 1,
      serviceProxyHealthy: true,
    });
    await lab.watched();
    lab.cluster.put("endpointslices", apiSlice("local", ["10.244.2.12"]));
    await expect.poll(status).toBe(503);
    lab.cluster.remove("services", apiService("local", { clusterIP: "10.96.7.4" }));
    await expect.poll(status).toBe(0);
  });

  test("a daemon beside the kube-proxy of k3s or RKE2 is ready on its own port, but not on kube-proxy's", async () => {
    const kubeProxy = lab.lab.start("node", [process.execPath, "--eval", KUBE_PROXY_OF_K3S]);
    const statusOf = async (port: number, path: string) =>
      (await lab.get(port, path).catch(() => undefined))?.status;
    try {
      await new Promise<void>((resolve) => kubeProxy.onLine(() => resolve()));
      daemon = lab.startImpatient([
        "--healthz-bind-address=0.0.0.0:10266",
        "--second-healthz-bind-address=0.0.0.0:10256",
      ]);
      await expect.poll(() => statusOf(10266, "/readyz")).toBe(200);
      expect(await statusOf(10266, "/livez")).toBe(200);
      // A program cannot listen on all addresses while another one listens on loopback.
      expect(await statusOf(10249, "/metrics")).toBeUndefined();
      expect(await statusOf(10256, "/healthz")).toBeUndefined();
    } finally {
      kubeProxy.kill("SIGKILL");
      await kubeProxy.ended;
    }
    await expect.poll(() => statusOf(10249, "/metrics")).toBe(200);
    await expect.poll(() => statusOf(10256, "/healthz")).toBe(200);
    expect(lab.api.events.map(({ reason }) => reason)).not.toContain("FailedToStartProxierHealthcheck");
  });
});

describe("a configuration that changes", () => {
  const config = (lines: string) =>
    `apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmetricsBindAddress: 0.0.0.0:10249\n${lines}`;
  const base = "clusterCIDR: 10.244.0.0/16,fd00:244::/32\nnodePortAddresses: [primary]\n";

  test("takes effect at once where that is safe, and otherwise needs a restart", async () => {
    const healthPort = 32_124;
    put("local", "10.96.7.7", {
      type: "LoadBalancer",
      externalTrafficPolicy: "Local",
      healthCheckNodePort: healthPort,
    });
    const isServed = () =>
      lab.get(healthPort, "/").then(
        ({ status }) => status,
        () => "nobody listens on this address",
      );
    const file = await lab.file("config.yaml", config(base));
    daemon = lab.start([`--config=${file}`]);
    await lab.converged();
    await writeFile(
      file,
      config(`${base}logging: { verbosity: 4 }\noomScoreAdj: -100\nnftables: { masqueradeAll: true }\n`),
    );
    expect((await daemon.saying("the configuration changed")).taken).toEqual([
      "nftables.masqueradeAll",
      "logging.verbosity",
    ]);
    expect((await daemon.saying("some changes take effect only after a restart")).needRestart).toEqual([
      "oomScoreAdj",
    ]);
    await lab.converged({ masqueradeAll: true });
    expect(await isServed()).toBe("nobody listens on this address");
    put("more", "10.96.7.5");
    expect(await daemon.saying("synced")).toMatchObject({ level: "debug" });

    await writeFile(file, config(base.replace("10.244.0.0/16", "10.244.0.0/99")));
    expect(
      await daemon.saying("the changed configuration cannot be used: keeping the current one"),
    ).toMatchObject({
      clusterCIDR: expect.stringContaining('not "10.244.0.0/99,fd00:244::/32"'),
    });
    const all = base.replace("primary", '0.0.0.0/0, "::/0"');
    await writeFile(
      file,
      config(`${all}detectLocalMode: BridgeInterface\ndetectLocal: { bridgeInterface: cni0 }\n`),
    );
    await daemon.saying("the configuration changed", 2);
    await lab.converged({ nodePorts: { kind: "all" }, localTraffic: { kind: "interface", pattern: "cni0" } });
    await expect.poll(isServed, { message: "health check node ports follow the addresses" }).toBe(200);
  });

  test("is read again on SIGHUP, with a log line even if nothing changed or the file is invalid", async () => {
    const file = await lab.file("again.yaml", config(base));
    daemon = lab.start([`--config=${file}`]);
    await lab.converged();
    daemon.signal("SIGHUP");
    await daemon.saying("the configuration was read again; nothing changed");
    await writeFile(file, config(`${base}nftables: { masqueradeAll: true }\n`));
    daemon.signal("SIGHUP");
    expect((await daemon.saying("the configuration changed")).taken).toEqual(["nftables.masqueradeAll"]);
    await lab.converged({ masqueradeAll: true });
    await writeFile(file, config(`${base}nftables: { masqueradeAll: true }\noomScoreAdj: -100\n`));
    daemon.signal("SIGHUP");
    await daemon.saying("some changes take effect only after a restart");
    expect(daemon.said("the configuration changed")).toHaveLength(1);
    await writeFile(file, config(`${base}nodePortAddresses: [`));
    await daemon.saying("the changed configuration cannot be used: keeping the current one");
    daemon.signal("SIGHUP");
    await daemon.saying("the changed configuration cannot be used: keeping the current one", 2);
    await lab.lab.exec(["rm", file]);
    daemon.signal("SIGHUP");
    const gone = await daemon.saying("the changed configuration cannot be used: keeping the current one", 3);
    expect(gone).toMatchObject({ err: expect.stringContaining(file) });
    await lab.converged({ masqueradeAll: true });
  });
});

describe("a daemon that ends by itself", () => {
  const ADDRESS_IN_USE = ["--bind-address-hard-fail", "--healthz-bind-address=0.0.0.0:10249"];
  const tooOld = () =>
    wrappedNft(
      lab,
      "old-nft",
      `case "$*" in *-f*) cat >/dev/null; echo "Error: syntax error, unexpected typeof" >&2; exit 1;; esac`,
    );
  const run = async (...flags: readonly string[]) => {
    const ended = lab.start(flags);
    const { exitCode, stdout, stderr } = await ended.ended;
    return { exitCode, stdout, stderr };
  };

  test("with --init-only lets nft check the rules, which loads kernel modules, sets up the host and programs nothing", async () => {
    await lab.nft("flush", "ruleset");
    const asked = await lab.file("nft-arguments", "");
    const nft = await wrappedNft(lab, "recording-nft", `echo "$@" >>${asked}`);
    expect(await run("--init-only", `--nft-path=${nft}`)).toMatchObject({ exitCode: 0 });
    // The expressions of all rules, those of all options, and what nft must refuse, in both notations.
    expect(await readFile(asked, "utf8")).toBe("-j -c -f -\n".repeat(4));
    expect(await lab.kernelText()).toBe("");
    expect(lab.api.requests).toEqual([]);
  });

  test("with --write-config-to writes a file that can be read back, and with --cleanup removes the tables", async () => {
    const target = await lab.file("written.yaml", "");
    expect(await run(`--write-config-to=${target}`)).toMatchObject({ exitCode: 0 });
    daemon = lab.start([`--config=${target}`]);
    await lab.converged();
    await daemon.stop();
    expect(await run("--cleanup")).toMatchObject({
      exitCode: 0,
      stdout: "removed: ip nft-proxy, ip6 nft-proxy",
    });
    expect(await lab.nft("list", "tables")).toBe("");
  });

  test.each([
    ["no API server", [], "no API server is configured"],
    ["a kubeconfig that does not exist", ["--kubeconfig=/nonexistent"], "/nonexistent"],
    ["a kubeconfig that is not YAML of that kind", ["--kubeconfig=/etc/hostname"], "/etc/hostname"],
    ["an address that is not a URL", ["--master=localhost"], "--master: must be a URL such as"],
  ])("given %s ends with exit code 2 and the reason", async (_what, from, why) => {
    const { exitCode, stderr } = await lab.start([], from).ended;
    expect(exitCode).toBe(2);
    expect(stderr).toContain(why);
    expect(stderr).not.toMatch(/\n\s+at /);
  });

  test("with a missing nft ends with exit code 2 and the reason", async () => {
    const { exitCode, stderr } = await lab.start(["--nft-path=/nonexistent/nft"]).ended;
    expect([exitCode, stderr]).toEqual([
      2,
      expect.stringContaining('cannot start nft at "/nonexistent/nft"'),
    ]);
  });

  test("with --bind-address-hard-fail and an address in use ends with exit code 2 and the reason", async () => {
    const { exitCode, stderr } = await lab.start(ADDRESS_IN_USE).ended;
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining("cannot listen on *:10249")]);
  });

  test.each([
    ["with an nft that is too old", async () => [`--nft-path=${await tooOld()}`]],
    [
      "for --init-only with an nft that is too old",
      async () => ["--init-only", `--nft-path=${await tooOld()}`],
    ],
    ["with an address in use", async () => ADDRESS_IN_USE],
  ])("%s leaves conntrack's settings unchanged", async (_what, flags) => {
    const timeout = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait";
    const read = async () => Number(await lab.lab.mustRun("node", ["cat", timeout]));
    const before = await read();
    const wanted = `--conntrack-tcp-timeout-close-wait=${before + 60}s`;
    const { exitCode } = await run(wanted, ...(await flags()));
    expect([exitCode, await read()]).toEqual([2, before]);
    // With an nft that works, the same flag succeeds.
    await run(wanted, "--init-only");
    expect(await read()).toBe(before + 60);
  });

  test("with --dry-run applies nothing, creates no Events and reports no drift", async () => {
    await lab.nft("flush", "ruleset");
    daemon = lab.start(["--dry-run", "--full-resync-period=1s", "--healthz-bind-address=127.0.0.1:10256"]);
    await daemon.saying("dry run: would apply");
    put("more", "10.96.7.6");
    await daemon.saying("dry run: would apply", 2);
    expect(await lab.nft("list", "tables")).toBe("");
    expect(lab.api.events).toEqual([]);
    expect(daemon.log.filter(({ level }) => level === "warn" || level === "error")).toEqual([]);
    await daemon.stop();
    expect(daemon.log.at(-1)?.msg).toBe("stopping; nothing was changed");
  });
});
