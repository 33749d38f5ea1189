import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { explain } from "../../src/inspect/explain/explain.ts";
import { type ExplainInput, explainInputOf, type LiveRules } from "../../src/inspect/explain/explain-input.ts";
import type { Explanation } from "../../src/inspect/explain/explanation.ts";
import { connectionOf } from "../../src/inspect/explain/packet.ts";
import type { HostFiles } from "../../src/kernel/host.ts";
import type { Nft } from "../../src/kernel/nft.ts";
import { readOtherTables } from "../../src/kernel/other-tables.ts";
import { interfaceLookup } from "../../src/kernel/routes.ts";
import { rebuildTransaction } from "../../src/nft/transaction.ts";
import { Renderer } from "../../src/ruleset/renderer.ts";
import { bundle, townFlags, townObjects } from "../support/command.ts";
import { createLab, type Lab } from "../support/lab/lab.ts";
import { nftOf } from "../support/lab/nft-of.ts";
import type { Probe } from "../support/lab/outcome.ts";
import { loadScenario } from "../support/lab/scenario.ts";
import { addressesOf } from "../support/lab/topology.ts";
import { contextsOfCache, townCache } from "../support/town-ruleset.ts";

const { probes, expect: recorded } = await loadScenario("town");
/** Connections that are answered when no other tables are there; `plain` ones are to no Service. */
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
  const input = explainInputOf({
    cache,
    nodeContext,
    state,
    objectsKnown: true,
    ignored: [],
    loadBalancers: [],
    hostAddresses: [],
  });
  return { input, renderer };
}

function explainProbe(input: ExplainInput, live: LiveRules, { from, to, port, proto }: Probe): Explanation {
  const { v4, v6 } = addressesOf(from);
  const source = from === "node" ? { source: "node" as const } : { fromAddress: to.includes(":") ? v6 : v4 };
  const withLive = { ...input, live };
  return explain(connectionOf({ ...source, to, port, protocol: proto }, withLive), withLive);
}

describe.each(["nftables-conf", "firewalld", "docker", "calico", "hand-written"])("beside the tables of %s", (name) => {
  test("connections end as explain predicts", async () => {
    const { input, renderer } = townInput();
    await lab.exec(["nft", "flush", "ruleset"]);
    await lab.loadTransaction(JSON.stringify(rebuildTransaction(renderer.state.ruleset)));
    await loadTables(fixture(name));
    await lab.exec(["conntrack", "-F"]);
    const live: LiveRules = {
      ruleset: renderer.state.ruleset,
      affinityEntries: [],
      otherTables: await readOtherTables(nft),
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
    // A machine that stands still for a second is not a rule that drops: what disagrees is asked again, with more time.
    const again = (await wrong(SAMPLE)).map(({ probe }) => ({ ...probe, wait: 5 }));
    expect((await wrong(again)).map(({ message }) => message)).toEqual([]);
    expect(results).toContain("served");
    expect(results).toContain("other-table");
  });
});

describe("explain --live", () => {
  async function explained(...flags: string[]): Promise<string> {
    const town = ["--from", townObjects("town"), ...townFlags];
    const { stdout, stderr } = await lab.exec([process.execPath, bundle, "explain", "--live", ...town, ...flags]);
    return `${stdout}${stderr}`.replaceAll(/\s+/g, " ");
  }

  beforeAll(async () => {
    await lab.exec(["nft", "flush", "ruleset"]);
    await lab.loadTransaction(JSON.stringify(rebuildTransaction(townInput().renderer.state.ruleset)));
  });

  test("names the chain of another table whose policy drops", async () => {
    await loadTables(fixture("nftables-conf"));
    const text = await explained("--from-ip", "10.244.1.11", "--to", "10.96.1.1", "--port", "80");
    expect(text).toContain("Dropped by table inet filter chain forward (policy drop)");
    expect(text).not.toContain("Served");
    await lab.exec(["nft", "delete", "table", "inet", "filter"]);
  });

  test("prints a rule that it does not understand, and what happens if it does not match", async () => {
    await loadTables(
      "table inet odd { chain f { type filter hook forward priority 5; ip ttl < 3 drop; meta length 77 reject; }; }",
    );
    const text = await explained("--from-ip", "10.244.1.11", "--to", "10.96.1.1", "--port", "80");
    expect(text).toContain(
      "Not understood: a rule of table inet odd chain f may decide: ip ttl < 3 drop, and 1 more such rule; " +
        "if they do not match, the connection is served; follow real packets, which names the rule that decides: " +
        "nft-proxy trace --to 10.96.1.1 --port 80.",
    );
    await lab.exec(["nft", "delete", "table", "inet", "odd"]);
  });

  test("predicts that a connection is served where other tables only count and log", async () => {
    await loadTables(
      "table inet odd { chain f { type filter hook forward priority 5; policy accept; ip ttl < 3 counter log; }; }",
    );
    const text = await explained("--from-ip", "10.244.1.11", "--to", "10.96.1.1", "--port", "80");
    expect(text).toContain("Served: ");
    await lab.exec(["nft", "delete", "table", "inet", "odd"]);
  });
});
