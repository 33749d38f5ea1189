import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { parseTar } from "nanotar";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Argv } from "../../../../src/cli/command.ts";
import { run } from "../../../../src/cli/commands/support-bundle.ts";
import { quietReporter } from "../../../support/command.ts";
import { type OtherAnswer, StubApi } from "../../../support/stub-api/stub-api.ts";
import { loadTown } from "../../../support/stub-api/town.ts";

let api: StubApi;
let directory: string;
beforeEach(async () => {
  api = await StubApi.start();
  loadTown(api.cluster);
  directory = mkdtempSync(join(tmpdir(), "bundle-"));
});
afterEach(async () => {
  await api.close();
  rmSync(directory, { recursive: true });
});

const PODS = "/api/v1/namespaces/kube-system/pods";
const LIVEZ = { currentTime: "2026-11-21T12:00:00Z", lastVerified: "2026-11-21T11:59:50Z" };

/** A pod of nft-proxy, beside which a sidecar runs. */
function pod(name: string, nodeName: string) {
  const ports = [{ name: "healthz", containerPort: 10256 }];
  return {
    metadata: { name },
    spec: { nodeName, containers: [{ name: "guard" }, { name: "proxy", ports }] },
  };
}

/** Serves pods on these nodes; those of `silent` do not answer. Records the number of requests at a time. */
function serve(nodes: readonly string[], silent: readonly string[] = []) {
  const seen = { most: 0 };
  let running = 0;
  const list = (items: readonly object[]) => {
    return { status: 200, body: JSON.stringify({ items, metadata: { resourceVersion: "1" } }) };
  };
  const ofPod = async (path: string, query: Readonly<Record<string, string>>): Promise<OtherAnswer> => {
    running += 1;
    seen.most = Math.max(seen.most, running);
    await new Promise((resolve) => setTimeout(resolve, 1));
    running -= 1;
    if (silent.some((node) => path.startsWith(`${PODS}/proxy-${node}`)))
      return { status: 503, body: "no route" };
    if (path.endsWith("/livez"))
      return { status: 503, body: JSON.stringify({ ...LIVEZ, reasons: ["quarantined: shop/cart"] }) };
    if (path.endsWith("/metrics")) return { status: 200, body: 'm{namespace="shop",service="gone"} 1\n' };
    expect(query).toEqual({ tailLines: "1000", limitBytes: "1000000", container: "proxy" });
    return { status: 200, body: "line about old/service at 10.96.1.2:80\n" };
  };
  api.other = (path, query) => {
    if (path === "/api/v1/nodes" && query.fieldSelector === undefined)
      return list(nodes.map((name) => ({ metadata: { name } })));
    if (path === PODS) return list(nodes.map((node) => pod(`proxy-${node}`, node)));
    if (path.endsWith("/daemonsets")) return list([]);
    return path.startsWith(`${PODS}/`) ? ofPod(path, query) : undefined;
  };
  return seen;
}

/** Runs `support-bundle --cluster`. Returns the texts of the archive's files by name, and the notices. */
async function collected(more: Argv = {}) {
  const file = join(directory, "bundle.tar.gz");
  const reporter = quietReporter();
  const { exitCode = 0 } = await run({ cluster: true, master: [api.url], file: [file], ...more }, reporter);
  expect(exitCode).toBe(0);
  const entries = parseTar(gunzipSync(readFileSync(file)));
  return { files: new Map(entries.map(({ name, text }) => [name, text])), notices: reporter.notices };
}

test("support-bundle --cluster has health, metrics and log of every node, and names nodes without an answer", async () => {
  serve(["worker-1", "worker-2"], ["worker-2"]);
  const { files, notices } = await collected();
  expect([...files.keys()].filter((name) => !name.includes("worker-2")).sort()).toEqual([
    "nft-proxy-support/fleet.json",
    ...["daemon.log", "livez.json", "metrics.txt"].map((name) => `nft-proxy-support/worker-1/${name}`),
  ]);
  expect(files.get("nft-proxy-support/worker-1/daemon.log")).toContain("old/service");
  expect(JSON.parse(files.get("nft-proxy-support/worker-1/livez.json") ?? "")).toMatchObject(LIVEZ);
  expect(JSON.parse(files.get("nft-proxy-support/fleet.json") ?? "")).toMatchObject([
    { node: "worker-2", state: "unreachable", reason: "HTTP status 503" },
    { node: "worker-1", state: "unhealthy" },
  ]);
  expect(notices).toContain(
    "warning: no answer of 1 node: worker-2 (unreachable); fleet.json has the reasons",
  );
});

test("support-bundle --cluster --redact replaces the names of nodes, pods and objects, and addresses, in names of files, too", async () => {
  serve(["worker-1"]);
  const { files } = await collected({ redact: true });
  const whole = [...files].flat().join("\n");
  for (const name of ["worker-1", "shop", "cart", "gone", "old/", "10.96.1.2"])
    expect(whole).not.toContain(name);
  const [, metrics] = [...files].find(([name]) => /^nft-proxy-support\/node-\d+\/metrics/.test(name)) ?? [];
  expect(metrics).toMatch(/namespace="namespace-\d+",service="service-\d+"/);
});

test("support-bundle --cluster --redact writes nothing if the names of objects are unknown", async () => {
  serve(["worker-1"]);
  api.cluster.absent.add("services");
  await expect(collected({ redact: true })).rejects.toMatchObject({
    message: expect.stringContaining("cannot redact, because the names of the cluster's objects are unknown"),
    hint: expect.stringContaining("must be allowed to list services"),
  });
});

test("support-bundle --cluster asks a limited number of pods at a time, and gives long names of nodes a folder", async () => {
  const seen = serve([...Array(40).keys()].map((index) => `${"n".repeat(80)}-${index}`));
  const { files } = await collected();
  expect(files.size).toBe(1 + 3 * 40);
  expect(Math.max(...[...files.keys()].map(({ length }) => length))).toBeLessThan(100);
  expect(seen.most).toBeLessThanOrEqual(16);
});

test("support-bundle refuses the flags of --cluster without it", async () => {
  await expect(run({ namespace: ["shop"] }, quietReporter())).rejects.toThrow("--namespace needs --cluster");
});
