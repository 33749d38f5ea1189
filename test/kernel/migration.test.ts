import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { execaSync } from "execa";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { HostFinding } from "../../src/inspect/doctor/finding.ts";
import { apiListText, apiService, apiSlice } from "../support/api-objects.ts";
import { bundle, townFlags, townObjects } from "../support/command.ts";
import { ConstantFlows } from "../support/constant-flows.ts";
import {
  IPTABLES_VARIANTS,
  iptables,
  iptablesModeProbes,
  iptablesModeRules,
  NO_RULES,
} from "../support/iptables-mode.ts";
import { createLab, type Lab } from "../support/lab/lab.ts";
import type { Outcome, Probe } from "../support/lab/outcome.ts";
import { loadScenario, type Scenario } from "../support/lab/scenario.ts";
import { addressesOf } from "../support/lab/topology.ts";

const KUBE_PROXY = readFileSync(new URL("../fixtures/kube-proxy/town.nft", import.meta.url), "utf8");

/** Builds an earlier version for upgrade tests, and prints its path. */
const BUILD_RELEASE = fileURLToPath(new URL("../../scripts/get-release.sh", import.meta.url));

let lab: Lab;
let town: Scenario;
/** The versions of scripts/get-release.sh. */
let oldBundle: string;
let manyChains: string;
beforeAll(async () => {
  oldBundle = execaSync(BUILD_RELEASE).stdout;
  manyChains = execaSync(BUILD_RELEASE, ["many-chains"]).stdout;
  [lab, town] = await Promise.all([createLab(), loadScenario("town")]);
  // The first run builds the earlier versions.
}, 600_000);
afterAll(() => lab?.close());
beforeEach(async () => {
  await node("nft", "flush", "ruleset");
  // Deletes flows of earlier tests: a later client with the same source port would continue such a flow.
  await node("conntrack", "-F");
});

const node = (...argv: [string, ...string[]]): Promise<string> => lab.mustRun("node", argv);

const nftProxy = (...args: string[]): Promise<string> => node(process.execPath, bundle, ...args);

async function loadKubeProxy(): Promise<void> {
  await lab.mustRun("node", ["nft", "-f", "-"], { input: KUBE_PROXY });
}

/**
 * Returns every eighth probe that is answered or refused. Probes of session affinity are excluded, because
 * one proxy does not know the other's affinity entries.
 */
function steadyProbes(): readonly Probe[] {
  const steady = town.probes.filter(({ id, sticky }) => !sticky && town.expect[id]?.result !== "timeout");
  return steady.filter((_, index) => index % 8 === 0).map((probe) => ({ ...probe, n: 5 }));
}

/**
 * Compares outcomes. Five connections may miss some endpoints and source addresses, but must not show others.
 */
function isAsExpected(seen: Outcome | undefined, expected: Outcome | undefined): boolean {
  if (seen === undefined || expected === undefined || seen.result !== expected.result) return false;
  const sources = expected.source?.split("/") ?? [];
  return (
    (seen.endpoints ?? []).every((endpoint) => expected.endpoints?.includes(endpoint)) &&
    (seen.source?.split("/") ?? []).every((source) => sources.includes(source))
  );
}

/**
 * Connects without a pause during `change`, with a whole round before and after it. Returns the unexpected
 * outcomes.
 */
async function faultsDuring(
  change: () => Promise<unknown>,
  probes: readonly Probe[] = steadyProbes(),
): Promise<readonly string[]> {
  const faults: string[] = [];
  const round = async () => {
    for (const [id, seen] of await lab.probe(probes)) {
      if (!isAsExpected(seen, town.expect[id])) faults.push(`${id}: ${JSON.stringify(seen)}`);
    }
  };
  await round();
  let changing = true;
  const changed = change().finally(() => {
    changing = false;
  });
  // A failure is thrown below, after the end of the current round.
  changed.catch(() => {});
  while (changing) await round();
  await changed;
  await round();
  return faults;
}

/** A client that keeps sending from one port to the cluster's DNS, and prints who gave each answer. */
const TALKER = `
  const socket = require("node:dgram").createSocket("udp4");
  socket.on("message", (answer) => console.log(String(answer)));
  socket.on("error", (error) => console.log(error.code));
  socket.connect(53, "10.96.0.10", () => setInterval(() => socket.send("hello"), 20));
`;

/** Returns the endpoints that answered one flow, which lasts from before `change` until after it. */
async function answersDuring(change: () => Promise<unknown>): Promise<ReadonlySet<string>> {
  const answers = new Set<string>();
  const talker = lab.start("pod3", [process.execPath, "--eval", TALKER]);
  const nextAnswer = () => new Promise<void>((resolve) => talker.onLine(() => resolve()));
  talker.onLine((line) => answers.add(line));
  await nextAnswer();
  await change();
  await nextAnswer();
  talker.kill("SIGKILL");
  await talker.ended;
  return answers;
}

const apply = () => nftProxy("apply", "--from", townObjects("town"), ...townFlags);

describe("a node that migrates", () => {
  test("from kube-proxy to nft-proxy answers every connection", async () => {
    await loadKubeProxy();
    expect(await faultsDuring(apply)).toEqual([]);
    expect(await faultsDuring(() => nftProxy("cleanup", "--kube-proxy"))).toEqual([]);
    expect(await node("nft", "list", "tables")).toBe("table ip nft-proxy\ntable ip6 nft-proxy");
  });

  test("from nft-proxy to kube-proxy answers every connection", async () => {
    await apply();
    expect(await faultsDuring(loadKubeProxy)).toEqual([]);
    expect(await faultsDuring(() => nftProxy("cleanup"))).toEqual([]);
    expect(await node("nft", "list", "tables")).toBe("table ip kube-proxy\ntable ip6 kube-proxy");
  });

  test("in either direction keeps existing flows on their endpoint", async () => {
    await loadKubeProxy();
    const thereAndBack = async () => {
      await apply();
      await nftProxy("cleanup", "--kube-proxy");
      await loadKubeProxy();
      await nftProxy("cleanup");
    };
    const answers = [...(await answersDuring(thereAndBack))];
    expect(answers).toEqual([expect.stringMatching(/^10\.244\.\d\.\d+ 53 10\.244\.1\.13$/)]);
  });

  test("by removing the old rules first loses connections, so this check can fail", async () => {
    await loadKubeProxy();
    const wrongWay = async () => {
      await nftProxy("cleanup", "--kube-proxy");
      await lab.probe(steadyProbes());
      await apply();
    };
    expect(await faultsDuring(wrongWay)).not.toEqual([]);
  });
});

describe.each(IPTABLES_VARIANTS)("a node that migrates from iptables mode, with iptables-%s", (variant) => {
  const restore = (input: string) => lab.mustRun("node", iptables(variant, "iptables-restore"), { input });
  const load = () => restore(iptablesModeRules(town));
  const clear = () => restore(NO_RULES);
  const probes = () => iptablesModeProbes(town).map((probe) => ({ ...probe, n: 5 }));

  test("answers every connection, in both directions", async () => {
    await load();
    try {
      expect(await faultsDuring(apply, probes())).toEqual([]);
      expect(await faultsDuring(clear, probes())).toEqual([]);
      expect(await faultsDuring(load, probes())).toEqual([]);
      expect(await faultsDuring(() => nftProxy("cleanup"), probes())).toEqual([]);
    } finally {
      await clear();
    }
  });

  test("has new connections translated by nft-proxy's rules as soon as these exist", async () => {
    const translated = async () => {
      await node("conntrack", "-F");
      await lab.probe(probes());
      const saved = await node(...iptables(variant, "iptables-save"), "-c", "-t", "nat");
      return saved.split("\n").filter((line) => /^\[(?!0:).*-j DNAT/.test(line)).length;
    };
    await load();
    try {
      expect(await translated()).toBeGreaterThan(0);
      await load();
      await apply();
      expect(await translated()).toBe(0);
    } finally {
      await clear();
    }
  });

  test("gets the kind of rules from doctor --migration, with the configuration of EKS", async () => {
    const config = fileURLToPath(new URL("../fixtures/platforms/eks-config-map.yaml", import.meta.url));
    const flags = ["--migration", `--config=${config}`, "--hostname-override=node-1", "--output=json"];
    await load();
    try {
      const report = await nftProxy("doctor", ...flags, "--from", townObjects("town"));
      const found = (JSON.parse(report).findings as HostFinding[]).map((one) => `${one.check}: ${one.found}`);
      // nft cannot list legacy rules, and kube-proxy, which could report its mode, does not run here.
      const rules = {
        nft: "migration: kube-proxy has rules on this host (mode iptables)",
        legacy: "other-proxy: legacy iptables has tables: nat",
      };
      expect(found).toContain(rules[variant]);
      expect(found).toContain("cluster-cidr: detect-local-mode is ClusterCIDR, but there is no cluster CIDR");
    } finally {
      await clear();
    }
  });

  test("loses connections if the old rules are removed first, so this check can fail", async () => {
    await load();
    expect(await faultsDuring(clear, probes())).not.toEqual([]);
  });
});

describe("a node with the tables of an earlier version", () => {
  /** Sources with session affinity to one of several endpoints, and the addresses for which they have it. */
  const STICKY: readonly Omit<Probe, "id">[] = (["pod1", "pod3", "node", "ext"] as const).flatMap((from) => [
    { from, to: "10.96.5.1", port: 7777, proto: "udp", n: 5 },
    { from, to: "fd00:10:96::501", port: 7777, proto: "udp", n: 5 },
    { from, to: "192.0.2.2", port: 30777, proto: "udp", n: 5 },
  ]);

  async function stickyAnswers(): Promise<readonly string[]> {
    await node("conntrack", "-F");
    const answers = await lab.observe(STICKY.map((probe, index) => ({ id: String(index), ...probe })));
    return STICKY.map((_, index) => Object.keys(answers.get(String(index)) ?? {}).join());
  }

  const applyOld = () =>
    node(process.execPath, oldBundle, "apply", "--from", townObjects("town"), ...townFlags);

  test("recreates them while every connection is answered, and afterwards clients are sticky", async () => {
    await applyOld();
    await stickyAnswers();
    expect(await faultsDuring(apply)).toEqual([]);
    const after = await stickyAnswers();
    expect(new Set(after).size).toBeGreaterThan(1);
    for (const answer of after) expect(answer).toMatch(/^\S+ 7777 \S+$/);
    expect(await stickyAnswers()).toEqual(after);
  });

  test("gets these tables back while nearly every connection is answered", async () => {
    await apply();
    await stickyAnswers();
    // The earlier version replaces all chains in one step, and a packet may pass between the old and the new
    // ones.
    expect((await faultsDuring(applyOld)).length).toBeLessThan(2);
    expect(await node("nft", "list", "table", "ip", "nft-proxy")).toContain("map service-ips");
  });
});

describe("a node with chains for each setting of session affinity and each list of source ranges", () => {
  const [STICKY, GUARDED] = ["10.96.8.8", "203.0.113.75"] as const;
  const DNS = { port: 53, protocol: "UDP", targetPort: 53 } as const;
  const ENDPOINTS = ["10.244.1.11", "10.244.1.12", "10.244.2.11", "10.244.2.12", "10.244.3.11"];
  // The longest list of source ranges is too long for the argument of a command.
  const RANGES = ["192.0.2.128/25", ...Array.from({ length: 200 }, (_, n) => `20.0.${n}.0/27`)];
  let directory: string;
  let from: readonly string[];
  beforeAll(async () => {
    const timeout = { clientIP: { timeoutSeconds: 7000 } };
    const spec = { sessionAffinity: "ClientIP", sessionAffinityConfig: timeout };
    const sticky = apiService("sticky", { clusterIP: STICKY, ports: [DNS], spec });
    const ranges = { type: "LoadBalancer", loadBalancerSourceRanges: RANGES };
    const guarded = {
      ...apiService("guarded", { clusterIP: "10.96.8.9", ports: [DNS], spec: ranges }),
      status: { loadBalancer: { ingress: [{ ip: GUARDED, ipMode: "VIP" }] } },
    };
    const slices = ["sticky", "guarded"].map((name) => apiSlice(name, ENDPOINTS, [DNS]));
    directory = mkdtempSync(join(tmpdir(), "migration-"));
    const file = join(directory, "shop.json");
    writeFileSync(file, apiListText([sticky, guarded], slices));
    from = ["--from", townObjects("town"), "--from", file, ...townFlags];
    // The clients use thousands of ports each second. Each must be a new flow when they use it again.
    await node("sysctl", "-qw", "net.netfilter.nf_conntrack_udp_timeout=2");
  });
  afterAll(() => rmSync(directory, { recursive: true }));

  const old = () => node(process.execPath, manyChains, "apply", ...from);
  const current = () => nftProxy("apply", ...from);
  const listed = async () => (await node("nft", "list", "ruleset")).split("\n");

  /** The chains and sets of the earlier version that this one does not have. */
  const isOfOldLayout = (line: string) =>
    /^\t(?:chain|set|map) (?:range-)?(?:firewall-|ping-[\da-f]|source-ranges-[\da-f]{20}|affinity-(?:both-)?(?:local-)?\d)/.test(
      line,
    );

  /** The endpoints of each client of the sticky Service. */
  async function stickyEndpoints(): Promise<readonly string[]> {
    await node("conntrack", "-F");
    const clients = ["pod1", "pod2", "pod3", "pod4", "node", "ext", "ext2"] as const;
    const probe = { to: STICKY, port: 53, proto: "udp", n: 8 } as const;
    const answers = await lab.observe(clients.map((client) => ({ ...probe, id: client, from: client })));
    return clients.map((client) => {
      const endpoints = Object.keys(answers.get(client) ?? {}).map((answer) => answer.split(" ")[0]);
      return `${client} ${[...new Set(endpoints)].join()}`;
    });
  }

  test("gets the tables of this version while every connection is answered and no forbidden client is let in, and keeps nothing of the earlier one", async () => {
    await old();
    expect((await listed()).filter(isOfOldLayout).length).toBeGreaterThan(4);
    const before = await stickyEndpoints();
    for (const each of before) expect(each).toMatch(/^\w+ 10\.244\.\d\.\d+$/);
    const machine = "ext";
    const [allowed, forbidden] = [addressesOf("ext2").v4, addressesOf("ext").v4];
    const flows = await Promise.all([
      ConstantFlows.start(lab, { machine, source: allowed, address: GUARDED, port: 53, isServed: true }),
      ConstantFlows.start(lab, { machine, source: allowed, address: STICKY, port: 53, isServed: true }),
      ConstantFlows.start(lab, { machine, source: forbidden, address: GUARDED, port: 53, isServed: false }),
    ]);
    // The flows keep the processors busy.
    const probes = steadyProbes().map((probe) => ({ ...probe, wait: 10 }));
    expect(await faultsDuring(current, probes)).toEqual([]);
    const [served, sticky, refused] = await Promise.all(flows.map((flow) => flow.end()));
    expect(served?.answered).toBe(served?.sent);
    expect(sticky?.answered).toBe(sticky?.sent);
    expect(refused?.answered).toBe(0);
    for (const counts of [served, sticky, refused]) expect(counts?.sent).toBeGreaterThan(100);
    expect((await listed()).filter(isOfOldLayout)).toEqual([]);
    expect(await lab.exec([process.execPath, bundle, "diff", ...from])).toMatchObject({ exitCode: 0 });
    expect(await stickyEndpoints()).toEqual(before);
  });
});
