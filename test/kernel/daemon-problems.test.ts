import { rm, writeFile } from "node:fs/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { bundle, townFlags, townObjects } from "../support/command.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { townList } from "../support/stub-api/town.ts";
import { wrappedNft } from "../support/wrapped-nft.ts";

// Whatever breaks, one command leads to its cause and to a remedy: `doctor` on the node. Health checks and
// the status page say the same.

const ESTABLISHED_TIMEOUT = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established";

let lab: DaemonLab;
let daemon: RunningDaemon;
let socket: string;
beforeAll(async () => {
  lab = await DaemonLab.create();
});
afterAll(() => lab?.close());
beforeEach(async () => {
  await lab.startApi();
  for (const resource of ["nodes", "servicecidrs"] as const)
    lab.cluster.load(resource, townList("town", resource));
  put("web", "10.96.7.1");
  socket = await lab.file("daemon.sock", "").then((path) => `${path}.d/daemon.sock`);
});
afterEach(async () => {
  await daemon?.stop();
  expect(daemon?.otherLines ?? []).toEqual([]);
});

function put(name: string, clusterIP: string, spec = {}): void {
  lab.cluster.put("services", apiService(name, { clusterIP, spec }));
  lab.cluster.put("endpointslices", apiSlice(name, ["10.244.1.11", "10.244.2.12"]));
}

interface Finding {
  readonly check: string;
  readonly level: string;
  readonly found: string;
  readonly action?: string;
}

/** What doctor says on the node, without other options than the socket's. */
async function doctor(): Promise<readonly Finding[]> {
  const { stdout } = await lab.lab.exec([
    process.execPath,
    bundle,
    "doctor",
    "-o",
    "json",
    `--daemon-socket=${socket}`,
  ]);
  return JSON.parse(stdout).findings;
}

/** Waits until doctor, /healthz and the status page have a problem, and returns the finding. */
async function problem(check: string): Promise<Finding> {
  let finding: Finding | undefined;
  await expect
    .poll(
      async () => {
        finding = (await doctor()).find((one) => one.check === check);
        return finding !== undefined;
      },
      { message: check },
    )
    .toBe(true);
  const shown = finding as Finding;
  expect(JSON.parse((await lab.get(10256, "/healthz")).body).reasons).toContain(shown.found);
  return shown;
}

async function expectNoProblem(check: string): Promise<void> {
  await expect.poll(async () => (await doctor()).filter((one) => one.check === check)).toEqual([]);
}

describe("the cause is found with one command", () => {
  const config = (lines: string) =>
    `apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmetricsBindAddress: 0.0.0.0:10249\nclusterCIDR: 10.244.0.0/16,fd00:244::/32\nnodePortAddresses: [primary]\n${lines}`;

  test("of a changed configuration that cannot be used, that waits for a restart, or that is gone", async () => {
    const file = await lab.file("problems.yaml", config(""));
    daemon = lab.start([`--config=${file}`, `--daemon-socket=${socket}`]);
    await lab.converged();
    const reloaded = () => lab.metric("nft_proxy_config_last_reload_successful");
    expect(await reloaded()).toBe(1);

    await writeFile(file, config("nftProxy: ["));
    expect(await problem("configuration")).toMatchObject({
      level: "warning",
      found: expect.stringContaining(file),
      action: expect.stringContaining("nft-proxy config --validate"),
    });
    expect(await reloaded()).toBe(0);
    expect((await lab.get(10249, "/")).body).toContain("the changed configuration cannot be used");

    await writeFile(file, config("oomScoreAdj: 5000\n"));
    await expect
      .poll(async () => (await problem("configuration")).found)
      .toContain("a value is invalid; oomScoreAdj: ");

    await writeFile(file, config("oomScoreAdj: -100\n"));
    expect((await problem("restart")).found).toContain("oomScoreAdj");
    await expectNoProblem("configuration");
    expect(await reloaded()).toBe(1);
    expect(await lab.metric("nft_proxy_config_settings_awaiting_restart")).toBe(1);

    await rm(file);
    daemon.signal("SIGHUP");
    expect((await problem("configuration")).found).toContain(file);
    await writeFile(file, config(""));
    await expectNoProblem("configuration");
    await expectNoProblem("restart");
  });

  test("of an API server that does not let the daemon in", async () => {
    lab.api.addFault({ resource: "services", fault: { kind: "status", status: 403 }, times: Infinity });
    daemon = lab.start([`--daemon-socket=${socket}`]);
    const finding = await problem("following");
    expect(finding).toMatchObject({
      level: "fault",
      found: expect.stringMatching(/cannot follow services: HTTP 403/),
      action: expect.stringContaining("ServiceAccount list and watch them: see the ClusterRole"),
    });
    expect(JSON.stringify(await doctor())).not.toContain("--dry-run");
    expect(daemon.said("cannot follow the API server; none are known yet")).not.toEqual([]);
    lab.api.clearFaults();
    await lab.converged();
    await expectNoProblem("following");
  });

  test("of files that cannot be read, with a remedy that fits files", async () => {
    const file = await lab.file("objects.yaml", "kind: [");
    daemon = lab.start([`--daemon-socket=${socket}`], [`--from=${townObjects("town")}`, `--from=${file}`]);
    expect(await problem("following")).toMatchObject({
      found: expect.stringContaining(file),
      action: expect.stringContaining("--from"),
    });
  });

  test("of an nft that does nothing: the daemon does not start, and changes nothing on the host", async () => {
    const path = await wrappedNft(lab, "nft-nothing", "exit 0");
    const flags = [`--master=${lab.master}`, "--conntrack-tcp-timeout-established=1234s", ...townFlags];
    const { exitCode, stderr } = await lab.lab.exec([
      process.execPath,
      bundle,
      "run",
      `--nft-path=${path}`,
      ...flags,
    ]);
    expect(exitCode).not.toBe(0);
    expect(stderr).toContain("does nothing: it accepts the deletion of a chain");
    const established = await lab.lab.exec(["cat", ESTABLISHED_TIMEOUT]);
    expect(established.stdout.trim()).not.toBe("1234");
  });

  test("of an nft that drops transactions: nothing counts as programmed", async () => {
    await lab.nft("flush", "ruleset");
    const path = await wrappedNft(
      lab,
      "nft-drops",
      'case "$*" in *-c*) exec nft "$@";; *-f*) cat >/dev/null; exit 0;; *) exec nft "$@";; esac',
    );
    daemon = lab.start([`--nft-path=${path}`, `--daemon-socket=${socket}`]);
    await expect
      .poll(async () => JSON.stringify(daemon.log))
      .toContain("reports success, but the kernel has no table ip nft-proxy");
    expect((await lab.get(10256, "/readyz")).status).toBe(503);
  });

  test("of a Service beyond its budget, and of two Services with one address", async () => {
    daemon = lab.start([`--daemon-socket=${socket}`, "--max-service-elements=100"]);
    await lab.converged();
    put("first", "10.96.7.2", { externalIPs: ["192.0.2.77"] });
    put("second", "10.96.7.3", { externalIPs: ["192.0.2.77"] });
    expect(await problem("conflict")).toMatchObject({
      level: "warning",
      found: expect.stringMatching(/shop\/\w+.* has 192\.0\.2\.77:80\/tcp, which shop\/\w+.* wants/),
    });
    lab.cluster.put("services", apiService("huge", { clusterIP: "10.96.7.4" }));
    lab.cluster.put(
      "endpointslices",
      apiSlice(
        "huge",
        Array.from({ length: 200 }, (_, n) => `10.244.8.${n}`),
      ),
    );
    expect(await problem("quarantine")).toMatchObject({
      level: "fault",
      found: expect.stringContaining("shop/huge"),
      action: expect.stringContaining("explain"),
    });
  });
});
