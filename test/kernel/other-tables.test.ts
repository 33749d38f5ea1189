import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { explain } from "../../src/inspect/explain/explain.ts";
import { type ExplainInput, hostOf, type LiveRules } from "../../src/inspect/explain/explain-input.ts";
import type { Explanation } from "../../src/inspect/explain/explanation.ts";
import { connectionOf } from "../../src/inspect/explain/packet.ts";
import type { HostFiles } from "../../src/kernel/host.ts";
import type { Nft } from "../../src/kernel/nft.ts";
import { listOtherTables, otherTables } from "../../src/kernel/other-tables.ts";
import { interfaceLookup } from "../../src/kernel/routes.ts";
import { rebuildTransaction } from "../../src/nft/transaction.ts";
import { Renderer } from "../../src/ruleset/renderer.ts";
import { evaluate } from "../../src/trace/evaluate.ts";
import { bundle, townFlags, townObjects } from "../support/command.ts";
import { LAB_NODE, packetOf, tallyOf } from "../support/expect.ts";
import { createLab, type Lab } from "../support/lab/lab.ts";
import { nftOf } from "../support/lab/nft-of.ts";
import type { Probe } from "../support/lab/outcome.ts";
import { loadScenario } from "../support/lab/scenario.ts";
import { addressesOf } from "../support/lab/topology.ts";
import { contextsOfCache, townCache } from "../support/town-ruleset.ts";

const { probes, expect: recorded } = await loadScenario("town");
/** Connections that are answered if there are no other tables. `plain` ones do not go to a Service. */
const SAMPLE = probes
  .filter(({ id, sticky }) => recorded[id]?.result === "ok" && !sticky)
  .filter(({ id }, i) => i % 7 === 0 || id.startsWith("plain"));

let lab: Lab;
let nft: Nft;
let files: HostFiles;
beforeAll(async () => {
  lab = await createLab();
  nft = nftOf(lab);
  files = {
    read: async (path) => (await lab.exec(["cat", path])).stdout,
    write: () => Promise.reject(new Error("not written")),
    lines: () => {
      throw new Error("not read");
    },
  };
});
afterAll(() => lab?.close());

function fixture(name: string): string {
  return readFileSync(new URL(`../fixtures/other-tables/${name}.nft`, import.meta.url), "utf8");
}

async function loadTables(text: string): Promise<void> {
  await lab.mustRun("node", ["nft", "-f", "-"], { input: text });
}

function townInput(): { readonly input: ExplainInput; readonly renderer: Renderer } {
  const cache = townCache("town");
  const nodeContext = contextsOfCache(cache);
  const renderer = new Renderer(cache, nodeContext);
  renderer.update(cache.takeDirty());
  const { state } = renderer;
  const input: ExplainInput = {
    cache,
    nodeContext,
    state,
    objectsKnown: true,
    ignored: [],
    loadBalancers: [],
    host: hostOf(nodeContext, []),
  };
  return { input, renderer };
}

function explainProbe(input: ExplainInput, live: LiveRules, probe: Probe): Explanation {
  const { from, to, port } = probe;
  const { v4, v6 } = addressesOf(from);
  const source = from === "node" ? { source: "node" as const } : { fromAddress: to.includes(":") ? v6 : v4 };
  const withLive = { ...input, live };
  return explain(
    connectionOf({ ...source, to, port, protocol: packetOf(probe).protocol }, withLive),
    withLive,
  );
}

describe.each(["nftables-conf", "firewalld", "docker", "calico", "hand-written"])(
  "beside the tables of %s",
  (name) => {
    test("connections end as explain predicts", async () => {
      const { input, renderer } = townInput();
      await lab.exec(["nft", "flush", "ruleset"]);
      await lab.loadTransaction(JSON.stringify(rebuildTransaction(renderer.state.ruleset)));
      await loadTables(fixture(name));
      await lab.exec(["conntrack", "-F"]);
      const live: LiveRules = {
        ruleset: renderer.state.ruleset,
        affinityEntries: [],
        otherTables: otherTables(await listOtherTables(nft)),
        interfaceTo: await interfaceLookup(files),
      };
      const results = new Set<string>();
      const wrong = async (probes: readonly Probe[]) => {
        const seen = await lab.observe(probes);
        return probes.flatMap((probe) => {
          const { verdict } = explainProbe(input, live, probe);
          results.add(verdict.cause);
          const answers = Object.keys(seen.get(probe.id) ?? {});
          const isServed = answers.every((answer) => answer.includes(" "));
          const agrees = ["served", "not-handled"].includes(verdict.result) === isServed;
          const message = `${probe.id}: ${verdict.result}, ${verdict.message}; kernel ${answers.join()}`;
          return agrees ? [] : [{ probe, message }];
        });
      };
      // A busy machine may delay answers like a rule that drops, so probes that disagree are repeated with
      // more time.
      const again = (await wrong(SAMPLE)).map(({ probe }) => ({ ...probe, wait: 5 }));
      expect((await wrong(again)).map(({ message }) => message)).toEqual([]);
      expect(results).toContain("served");
      expect(results).toContain("other-table");
    });
  },
);

describe("the evaluator and the kernel agree on other software's rules", () => {
  const rows: readonly (readonly [
    what: string,
    from: Probe["from"],
    to: string,
    port: number,
    proto?: Probe["proto"],
  ])[] = [
    [
      "a filter chain before the hook's translation, with a priority after a nat chain",
      "pod1",
      "10.96.1.1",
      80,
    ],
    [
      "a filter chain after the hook's translation, with a priority before a nat chain",
      "pod1",
      "10.96.1.2",
      80,
    ],
    ["a filter chain at the priority of translation, created before it", "pod1", "10.96.1.4", 80],
    ["a filter chain at the priority of translation, created after it", "pod1", "10.96.1.5", 80],
    ["a filter chain of postrouting before masquerading", "pod1", "10.244.3.13", 80],
    ["a masquerade by a nat chain with an early priority", "pod2", "10.244.3.13", 80],
    ["a dnat of a table of both families, IPv4", "pod1", "10.244.3.14", 9100],
    ["a dnat of a table of both families, IPv6", "pod1", "fd00:244:3::14", 9100],
    ["a snat of a table of both families, IPv4", "pod1", "10.244.3.16", 7777],
    ["a snat of a table of both families, IPv6", "pod1", "fd00:244:3::16", 7777],
    ["a snat to the value of a map, and a chain after it", "pod1", "10.244.2.15", 6379],
    ["a snat by a map without the key", "pod1", "10.244.2.14", 6379],
    ["a hash of a port, 80", "pod1", "10.96.1.6", 80],
    ["a hash of a port, 443", "pod1", "10.96.1.6", 443],
    ["a hash of a port, 8081", "pod1", "10.96.1.6", 8081],
    ["a hash of a port, 6379", "pod1", "10.96.1.6", 6379],
    ["the first of two translations", "pod1", "10.96.1.8", 80],
    ["an accept of a nat chain, and a dnat of the next", "pod1", "10.96.1.9", 80],
    ["the address before translation", "pod1", "10.96.1.8", 8081],
    ["a mark of the connection", "pod1", "10.96.1.7", 80],
    ["a set of TCP flags", "pod1", "10.244.3.11", 9153],
    ["a set of prefixes, ranges and ports: in the range", "pod1", "10.244.2.14", 8080],
    ["a set of prefixes, ranges and ports: outside the range", "pod1", "10.244.2.16", 8080],
    ["an element with a timeout", "pod1", "10.244.3.12", 443],
    ["a masked mark", "pod1", "10.244.3.12", 8443],
    ["a concatenation with a protocol", "pod1", "10.244.3.15", 53],
    ["a return after a goto", "pod1", "10.244.3.15", 443],
    ["a return after a jump", "pod1", "10.244.3.15", 80],
    ["a verdict map that jumps to a return", "pod1", "10.244.2.13", 9153],
    ["a verdict map that goes to a return", "pod1", "10.244.2.15", 9153],
    ["the default of a verdict map", "pod1", "10.244.2.16", 9153],
    ["a reset, TCP", "pod1", "10.244.3.11", 3000],
    ["a reset, UDP", "pod1", "10.244.3.11", 3000, "udp"],
    ["an ICMPv6 error, IPv4", "pod1", "10.244.3.11", 5353],
    ["an ICMPv6 error, IPv6", "pod1", "fd00:244:3::11", 5353],
    ["a drop of a later chain after an accept", "pod1", "10.244.2.13", 3000],
    ["a dormant table that would drop", "ext", "10.244.2.11", 8443],
  ];

  test("on rules of every kind", async () => {
    await lab.exec(["nft", "flush", "ruleset"]);
    await loadTables(fixture("kinds"));
    await lab.exec(["conntrack", "-F"]);
    const { tables } = otherTables(await listOtherTables(nft));
    const probes = rows.map(
      ([id, from, to, port, proto = "tcp"]): Probe => ({ id, from, to, port, proto, n: 1, wait: 0.5 }),
    );
    const wrong = async (asked: readonly Probe[]) => {
      const seen = await lab.observe(asked);
      return asked.flatMap((probe) => {
        const packet = packetOf(probe);
        const predicted = Object.keys(tallyOf(packet, evaluate(tables, LAB_NODE, packet))).join();
        const met = Object.keys(seen.get(probe.id) ?? {}).join();
        return predicted === met
          ? []
          : [{ probe, message: `${probe.id}: evaluator ${predicted}; kernel ${met}` }];
      });
    };
    const again = (await wrong(probes)).map(({ probe }) => ({ ...probe, wait: 5 }));
    expect((await wrong(again)).map(({ message }) => message)).toEqual([]);
  });
});

describe("explain --live", () => {
  async function explained(...flags: string[]): Promise<string> {
    const town = ["--from", townObjects("town"), ...townFlags];
    const { stdout, stderr } = await lab.exec([
      process.execPath,
      bundle,
      "explain",
      "--live",
      ...town,
      ...flags,
    ]);
    return `${stdout}${stderr}`.replaceAll(/\s+/g, " ");
  }

  beforeAll(async () => {
    await lab.exec(["nft", "flush", "ruleset"]);
    await lab.loadTransaction(JSON.stringify(rebuildTransaction(townInput().renderer.state.ruleset)));
  });

  const own = () => JSON.stringify(rebuildTransaction(townInput().renderer.state.ruleset));
  const other =
    "table ip odd { chain p { type nat hook prerouting priority dstnat; ip daddr 10.96.1.1 tcp dport 80 dnat to 10.244.2.16; }; }";

  test.each([
    ["older", () => loadTables(other), () => lab.loadTransaction(own()), "Served: goes to one of"],
    [
      "younger",
      () => lab.loadTransaction(own()),
      () => loadTables(other),
      "Served: table ip odd chain p translates it to 10.244.2.16:80 before nft-proxy's rules do",
    ],
  ])(
    "predicts which of two nat chains with the same priority translates, with the other table's chain as the %s",
    async (_, first, second, expected) => {
      await lab.exec(["nft", "flush", "ruleset"]);
      await first();
      await second();
      await lab.exec(["conntrack", "-F"]);
      expect(await explained("--from-ip", "10.244.1.11", "--to", "10.96.1.1", "--port", "80")).toContain(
        expected,
      );
      const probe = { id: "only", from: "pod1", to: "10.96.1.1", port: 80, proto: "tcp", n: 1 } as const;
      const [answer] = Object.keys((await lab.observe([probe])).get("only") ?? {});
      expect(answer?.startsWith("10.244.2.16 ")).toBe(expected.includes("10.244.2.16"));
      await lab.exec(["nft", "destroy", "table", "ip", "odd"]);
    },
  );

  test.each([
    [
      "translates the source",
      "nat hook postrouting priority srcnat; ip daddr 10.244.0.0/16 masquerade",
      "translated by",
    ],
    [
      "sets nft-proxy's mark",
      "filter hook prerouting priority mangle; meta mark set meta mark | 0x4000",
      "masqueraded as this node's address:",
    ],
  ])("names the chain of another table that %s", async (_, chain, expected) => {
    await lab.exec(["nft", "flush", "ruleset"]);
    await lab.loadTransaction(own());
    await loadTables(`table inet odd { chain p { type ${chain}; }; }`);
    await lab.exec(["conntrack", "-F"]);
    const text = await explained("--from-ip", "10.244.1.11", "--to", "10.96.1.1", "--port", "80");
    expect(text).toContain(`source: ${expected} table inet odd chain p`);
    const probe = { id: "only", from: "pod1", to: "10.96.1.1", port: 80, proto: "tcp", n: 1 } as const;
    const [answer] = Object.keys((await lab.observe([probe])).get("only") ?? {});
    expect(answer).toMatch(/ (?:192\.0\.2\.2|169\.254\.1\.1)$/);
    await lab.exec(["nft", "destroy", "table", "inet", "odd"]);
  });

  test("names the chain of another table that drops answers", async () => {
    await lab.exec(["nft", "flush", "ruleset"]);
    await lab.loadTransaction(own());
    await loadTables(
      "table inet odd { chain f { type filter hook forward priority 5; policy drop; ct state new accept; }; }",
    );
    await lab.exec(["conntrack", "-F"]);
    const text = await explained("--from-ip", "10.244.1.11", "--to", "10.96.1.1", "--port", "80");
    expect(text).toContain(
      "Dropped: its answers are dropped by table inet odd chain f (policy drop); " +
        "let that software accept established connections (ct state established,related).",
    );
    const probe = {
      id: "only",
      from: "pod1",
      to: "10.96.1.1",
      port: 80,
      proto: "tcp",
      n: 1,
      wait: 0.5,
    } as const;
    expect(Object.keys((await lab.observe([probe])).get("only") ?? {})).toEqual(["timeout"]);
    await lab.exec(["nft", "delete", "table", "inet", "odd"]);
  });

  test("names the chain of another table whose policy drops", async () => {
    await loadTables(fixture("nftables-conf"));
    const text = await explained("--from-ip", "10.244.1.11", "--to", "10.96.1.1", "--port", "80");
    expect(text).toContain("Dropped by table inet filter chain forward (policy drop)");
    expect(text).not.toContain("Served");
    await lab.exec(["nft", "delete", "table", "inet", "filter"]);
  });

  test("prints a rule that it does not understand, and the outcome if that rule does not match", async () => {
    await loadTables(
      "table inet odd { chain f { type filter hook forward priority 5; ip ttl < 3 drop; meta length 77 reject; }; }",
    );
    const text = await explained("--from-ip", "10.244.1.11", "--to", "10.96.1.1", "--port", "80");
    expect(text).toContain(
      "Not understood: a rule of table inet odd chain f may decide: ip ttl < 3 drop, and 1 more such rule; " +
        "if they do not match, the connection is served; follow real packets to see the rule that decides: " +
        "nft-proxy trace --to 10.96.1.1 --port 80",
    );
    await lab.exec(["nft", "delete", "table", "inet", "odd"]);
  });

  test("predicts that a connection is served if other tables only count and log", async () => {
    await loadTables(
      "table inet odd { chain f { type filter hook forward priority 5; policy accept; ip ttl < 3 counter log; }; }",
    );
    const text = await explained("--from-ip", "10.244.1.11", "--to", "10.96.1.1", "--port", "80");
    expect(text).toContain("Served: ");
    await lab.exec(["nft", "delete", "table", "inet", "odd"]);
  });
});
