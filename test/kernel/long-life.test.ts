import { execaSync } from "execa";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Command, Transaction } from "../../src/nft/ast/json.ts";
import type { Ruleset } from "../../src/nft/ast/ruleset.ts";
import { diffRuleset } from "../../src/nft/delta.ts";
import { rebuildTransaction, toTransaction } from "../../src/nft/transaction.ts";
import { transactionText } from "../../src/nft/transaction-text.ts";
import { withoutObjectDeletions } from "../../src/ruleset/apply-plan.ts";
import { anyContexts, anyObjects } from "../support/arbitraries.ts";
import { renderAll, service, slice } from "../support/build.ts";
import { FakeKernel } from "../support/fake-kernel.ts";
import { parseWithElements } from "../support/listed-elements.ts";
import { objectWords } from "../support/object-words.ts";
import { rulesetText } from "../support/ruleset-text.ts";

// The tests of test/property use a fake kernel. Here the real kernel gets the same transactions.

function nft(args: readonly string[], input = ""): string {
  return execaSync("nft", [...args], { input, maxBuffer: 100_000_000 }).stdout;
}

function load(transaction: Transaction): void {
  nft(["-j", "-f", "-"], transactionText(transaction).text);
}

/** Returns the kernel's rules as nft lists them. */
function kernelRules(): Ruleset {
  const families = ["ip", "ip6"] as const;
  return Object.assign(
    {},
    ...families.map((family) => parseWithElements(nft(["-j", "list", "table", family, "nft-proxy"]))),
  );
}

beforeAll(() => void nft(["flush", "ruleset"]));
afterAll(() => void nft(["flush", "ruleset"]));

// The fixed seed gives the same clusters in every run.
const clusters = fc.sample(fc.tuple(anyObjects, anyContexts), { numRuns: 25, seed: 1 });

test("the kernel lists the desired rules after each transaction from one cluster to the next", () => {
  const fake = new FakeKernel();
  for (const [objects, nodeContext] of clusters) {
    const wanted = renderAll(objects, nodeContext).state.ruleset;
    const { main, objectDeletions } = withoutObjectDeletions(diffRuleset(fake.ruleset, wanted));
    for (const deltas of [main, objectDeletions].filter(({ length }) => length > 0)) {
      load(toTransaction(deltas));
      fake.apply(toTransaction(deltas));
    }
    expect(rulesetText(kernelRules())).toBe(rulesetText(wanted));
    expect(diffRuleset(kernelRules(), wanted)).toEqual([]);
    expect(rulesetText(fake.ruleset)).toBe(rulesetText(wanted));
  }
});

test("a rebuild leads to the desired rules from any others", () => {
  for (const [objects, nodeContext] of clusters.slice(0, 5)) {
    const wanted = renderAll(objects, nodeContext).state.ruleset;
    load(rebuildTransaction(wanted));
    load(rebuildTransaction(wanted));
    for (const delta of diffRuleset(kernelRules(), wanted)) {
      expect({
        written: objectWords([delta]).filter((word) => !word.startsWith("-")),
        ...delta,
      }).toMatchObject({
        written: [],
        elements: [],
      });
    }
  }
});

describe("the kernel and the fake kernel refuse", () => {
  const at = { family: "ip", table: "nft-proxy" } as const;
  const wanted = rebuildTransaction(
    renderAll({
      services: [
        service({ externalIPs: ["203.0.113.1"] }),
        service({ name: "idle", clusterIPs: ["10.96.0.11"] }),
      ],
      slices: [slice({ endpoints: ["10.244.2.11"] })],
    }).state.ruleset,
  );
  const verdict = (key: string, target: string): Command => ({
    add: {
      element: {
        ...at,
        name: "no-endpoint-services",
        elem: [[{ concat: [key, "tcp", 80] }, { goto: { target } }]],
      },
    },
  });
  const chain = (name: string) => ({ chain: { ...at, name } });

  test.each<[string, Command]>([
    ["the deletion of a chain that an element refers to", { delete: chain("reject-chain") }],
    ["the deletion of a chain that a rule refers to", { delete: chain("external-local") }],
    ["the deletion of a set that a rule reads", { delete: { set: { ...at, name: "cluster-ips" } } }],
    [
      "the deletion of a missing element",
      { delete: { element: { ...at, name: "cluster-ips", elem: ["10.255.255.255"] } } },
    ],
    [
      "an unknown chain in a rule",
      { add: { rule: { ...at, chain: "services", expr: [{ jump: { target: "none" } }] } } },
    ],
    ["an unknown chain in an element", verdict("10.0.0.1", "none")],
    ["an unknown set", { add: { element: { ...at, name: "none", elem: ["10.0.0.1"] } } }],
    ["another value for a key", verdict("10.96.0.11", "drop-chain")],
    [
      "another list for a frontend",
      {
        add: {
          element: { ...at, name: "lists", elem: [[{ concat: ["10.96.0.10", "tcp", 80] }, 0x8000_0ff0]] },
        },
      },
    ],
    ["another type of set", { add: { set: { ...at, name: "cluster-ips", type: "inet_service" } } }],
    [
      "another hook",
      {
        add: { chain: { ...at, name: "nat-output", type: "nat", hook: "output", prio: 0, policy: "accept" } },
      },
    ],
  ])("%s", (_, command) => {
    const fake = new FakeKernel();
    nft(["flush", "ruleset"]);
    for (const kernel of [load, (transaction: Transaction) => fake.apply(transaction)]) {
      kernel(wanted);
      kernel({ nftables: [verdict("10.96.0.11", "reject-chain")] });
      const before = rulesetText(kernel === load ? kernelRules() : fake.ruleset);
      expect(() => kernel({ nftables: [verdict("10.0.0.2", "reject-chain"), command] })).toThrow();
      expect(rulesetText(kernel === load ? kernelRules() : fake.ruleset)).toBe(before);
    }
  });
});
