import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Ruleset } from "../../src/nft/ast/ruleset.ts";
import { AFFINITY, LISTS } from "../../src/ruleset/sets.ts";
import { rememberedEndpoints } from "../support/affinity-entries.ts";
import { apiListText, apiService, apiSlice } from "../support/api-objects.ts";
import { bundle, townFlags, townObjects } from "../support/command.ts";
import { createLab, type Lab, type RunResult } from "../support/lab/lab.ts";
import { everyTenth, lastingDifferences, loadScenario } from "../support/lab/scenario.ts";
import { parseWithElements } from "../support/listed-elements.ts";
import { rulesetText, textWithoutPlacement } from "../support/ruleset-text.ts";
import { rulesetOfCache, townCache } from "../support/town-ruleset.ts";

let lab: Lab;
beforeAll(async () => {
  lab = await createLab();
});
afterAll(() => lab?.close());
beforeEach(() => nft("flush", "ruleset"));

const nft = (...args: string[]) => lab.mustRun("node", ["nft", ...args]);

function apply(from: string, ...flags: string[]): Promise<RunResult> {
  return lab.exec([process.execPath, bundle, "apply", "--from", from, ...townFlags, ...flags]);
}

async function listed(): Promise<Ruleset> {
  const families = await Promise.all(
    ["ip", "ip6"].map((family) => nft("-j", "list", "table", family, "nft-proxy")),
  );
  return Object.assign({}, ...families.map((text) => parseWithElements(text)));
}

async function kernel(): Promise<string> {
  return rulesetText(await listed());
}

/** What session affinity remembers of the Service games/arena, which is sticky in both towns. */
async function remembered(): Promise<ReadonlyMap<string, string>> {
  const { ip } = await listed();
  if (ip === undefined) throw new Error("no table ip nft-proxy");
  const listing = await nft("-j", "list", "map", "ip", "nft-proxy", AFFINITY);
  return rememberedEndpoints(ip, listing, "10.96.5.1 . udp . 7777");
}

/** Makes a connection to that Service, and gives what is remembered of it. */
async function remember(): Promise<ReadonlyMap<string, string>> {
  await lab.probe([
    { id: "arena", from: "pod3", to: "10.96.5.1", port: 7777, proto: "udp", n: 3, sticky: true },
  ]);
  const entries = await remembered();
  expect([...entries]).toEqual([["10.244.1.13", expect.stringMatching(/^10\.244\.\d\.\d+ \. 7777$/)]]);
  return entries;
}

/** Handles grow with every object that the kernel is given anew. */
async function handles(): Promise<string> {
  return await nft("-a", "list", "table", "ip", "nft-proxy");
}

describe("apply", () => {
  test("names a Service beyond a budget, applies the others and exits with 1", async () => {
    const directory = await mkdtemp(join(tmpdir(), "nft-proxy-apply-"));
    const from = join(directory, "two.json");
    const objects = ["old", "new"].map((name, i) => ({
      apiVersion: "v1",
      kind: "Service",
      metadata: { namespace: "shop", name, creationTimestamp: `202${i}-01-01T00:00:00Z` },
      spec: { clusterIP: `10.96.0.${i + 1}`, ports: [{ port: 80 }] },
    }));
    await writeFile(from, JSON.stringify({ apiVersion: "v1", kind: "List", items: objects }));
    const { exitCode, stdout, stderr } = await apply(from, "--max-namespace-elements=3");
    expect({ exitCode, stderr }).toEqual({
      exitCode: 1,
      stderr:
        "error: Service shop/new is quarantined and gets no rules: the Services of a namespace can have 3 elements in the kernel (--max-namespace-elements), and this one has 2, 1 more than older ones leave",
    });
    expect(stdout).toMatch(/^applied for 2 Services/);
    const text = await kernel();
    expect(text).toContain("10.96.0.1 . tcp . 80");
    expect(text).not.toContain("10.96.0.2 . tcp . 80");
  });

  test("programs a recorded cluster, then its changed state, and packets go where kube-proxy sent them", async () => {
    for (const name of ["town", "town-after"] as const) {
      const { exitCode, stderr } = await apply(townObjects(name));
      expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
      const desired = rulesetOfCache(townCache(name), { affinityMapSize: 1_048_576 });
      expect(textWithoutPlacement(await listed())).toBe(textWithoutPlacement(desired));
      const scenario = everyTenth(await loadScenario(name));
      expect(await lastingDifferences(scenario, lab)).toEqual([]);
    }
  });

  test("makes the same rules over earlier ones as from nothing, except for ids and numbers", async () => {
    await apply(townObjects("town-after"));
    const fresh = textWithoutPlacement(await listed());
    await nft("flush", "ruleset");
    await apply(townObjects("town"));
    await apply(townObjects("town-after"));
    expect(textWithoutPlacement(await listed())).toBe(fresh);
  });

  test("changes nothing if the objects are the same", async () => {
    await apply(townObjects("town"));
    const before = await handles();
    const { stdout } = await apply(townObjects("town"));
    expect(stdout).toContain("nothing to change");
    expect(await handles()).toBe(before);
  });

  test("keeps affinity entries when objects change", async () => {
    await apply(townObjects("town"));
    const before = await remember();
    await apply(townObjects("town-after"));
    expect(await remembered()).toEqual(before);
  });

  test("repairs changes by other programs in nft-proxy's tables", async () => {
    await apply(townObjects("town"));
    const right = await kernel();
    await nft("flush", "chain", "ip", "nft-proxy", "services");
    await nft("add", "element", "ip", "nft-proxy", "cluster-ips", "{ 192.0.2.99 }");
    await nft("delete", "element", "ip", "nft-proxy", "cluster-ips", "{ 10.96.1.1 }");
    await nft("add", "chain", "ip", "nft-proxy", "foreign");
    await nft("add", "set", "ip", "nft-proxy", "foreign-set", "{ type ipv4_addr; }");
    await nft("add", "rule", "ip", "nft-proxy", "foreign", "ip", "saddr", "@foreign-set", "drop");
    await nft("delete", "table", "ip6", "nft-proxy");
    expect((await apply(townObjects("town"))).exitCode).toBe(0);
    expect(await kernel()).toBe(right);
  });

  test("deletes an element whose list id no Service port can have", async () => {
    await apply(townObjects("town"));
    const right = await kernel();
    await nft("add", "element", "ip", "nft-proxy", LISTS, "{ 192.0.2.77 . tcp . 1 : bfff:fffc }");
    const { exitCode, stderr } = await apply(townObjects("town"));
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
    expect(await kernel()).toBe(right);
  });

  test("replaces a table whose maps have other declarations", async () => {
    await nft("add", "table", "ip", "nft-proxy");
    await nft("add", "map", "ip", "nft-proxy", "endpoints", "{ type ipv4_addr : ipv4_addr; }");
    expect((await apply(townObjects("town"))).exitCode).toBe(0);
    const over = await kernel();
    await nft("flush", "ruleset");
    await apply(townObjects("town"));
    expect(over).toBe(await kernel());
  });

  test("keeps affinity entries when it recreates tables", async () => {
    await apply(townObjects("town"));
    const before = await remember();
    expect((await apply(townObjects("town"), "--service-counters=services")).exitCode).toBe(0);
    expect(await nft("list", "map", "ip", "nft-proxy", "lists")).toContain("counter");
    expect(await remembered()).toEqual(before);
  });

  test("rebuilds tables that it cannot read", async () => {
    await apply(townObjects("town"));
    const right = await kernel();
    await nft(
      "add",
      "rule",
      "ip",
      "nft-proxy",
      "services",
      "ip",
      "saddr",
      "192.0.2.77",
      "log",
      "prefix",
      "foreign",
    );
    await nft("add", "chain", "ip", "nft-proxy", "foreign");
    await nft("add", "rule", "ip", "nft-proxy", "foreign", "log", "prefix", "foreign");
    const { exitCode, stdout } = await apply(townObjects("town"));
    expect(exitCode).toBe(0);
    expect(stdout).toContain("rebuilt");
    expect(await kernel()).toBe(right);
  });

  test("with --reset-vanished resets connections to endpoints that the files no longer have, and diff agrees", async () => {
    const service = apiService("web", { clusterIP: "10.96.8.1" });
    const path = join(await mkdtemp(join(tmpdir(), "apply-")), "objects.json");
    const applied = async (addresses: readonly string[]) => {
      await writeFile(path, apiListText([service], [apiSlice("web", addresses)]));
      expect((await apply(path, "--reset-vanished")).exitCode).toBe(0);
      const text = await nft("list", "set", "ip", "nft-proxy", "vanished");
      return [...text.matchAll(/[\d.]+ \. 8080/g)].map(String);
    };
    expect(await applied(["10.244.1.11", "10.244.1.12"])).toEqual([]);
    expect(await applied(["10.244.1.12"])).toEqual(["10.244.1.11 . 8080"]);
    expect(await applied([])).toEqual(["10.244.1.11 . 8080", "10.244.1.12 . 8080"]);
    const diff = await lab.exec([
      process.execPath,
      bundle,
      "diff",
      "--from",
      path,
      ...townFlags,
      "--reset-vanished",
    ]);
    expect([diff.stderr, diff.exitCode]).toEqual(["", 0]);
    expect(await applied(["10.244.1.11"])).toEqual(["10.244.1.12 . 8080"]);
    await apply(path);
    expect(await kernel()).not.toContain("vanished");
  });

  test("leaves other tables alone, and cleanup removes its own", async () => {
    await nft("add", "table", "inet", "firewall");
    await apply(townObjects("town"));
    const { stdout } = await lab.exec([process.execPath, bundle, "cleanup"]);
    expect(stdout).toBe("removed: ip nft-proxy, ip6 nft-proxy");
    expect(await nft("list", "tables")).toBe("table inet firewall");
  });

  test("applies nothing when an object is refused, and names the object", async () => {
    await apply(townObjects("town"));
    const before = await handles();
    const bad = JSON.stringify({
      apiVersion: "v1",
      kind: "Service",
      metadata: { namespace: "shop", name: "bad" },
      spec: {
        clusterIP: "10.0.0.1; flush ruleset",
        clusterIPs: ["10.0.0.1; flush ruleset"],
        ports: [{ port: 80 }],
      },
    });
    const { exitCode, stderr } = await lab.exec(
      [process.execPath, bundle, "apply", "--from=-", ...townFlags],
      {
        input: bad,
      },
    );
    expect(exitCode).toBe(2);
    expect(stderr).toMatch(/Service shop\/bad: .*spec\.clusterIP/);
    expect(stderr).not.toMatch(/\n\s+at /);
    expect(await handles()).toBe(before);
  });

  test("ends with exit code 2 for a node that is not among the objects, names the candidates, and applies nothing", async () => {
    const { exitCode, stdout, stderr } = await apply(townObjects("town"), "--hostname-override=node-9");
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: "" });
    expect(stderr).toContain("node node-9 is not among the objects; there are node-1");
    expect(await nft("list", "tables")).toBe("");
  });

  test("refuses an empty directory, and does not take it for an empty cluster", async () => {
    await apply(townObjects("town"));
    const before = await handles();
    const { exitCode, stderr } = await apply(await mkdtemp(join(tmpdir(), "nft-proxy-")));
    expect(exitCode).toBe(2);
    expect(stderr).toContain("contain no Service");
    expect(await handles()).toBe(before);
  });

  test("ends with exit code 2 and the reason for an nft that cannot be used", async () => {
    const absent = await apply(townObjects("town"), "--nft-path=/nowhere/nft");
    expect(absent.exitCode).toBe(2);
    expect(absent.stderr).toContain('cannot start nft at "/nowhere/nft"');
    const useless = await apply(townObjects("town"), "--nft-path=false");
    expect(useless.exitCode).toBe(2);
    expect(useless.stderr).toContain("lacks");
  });
});
