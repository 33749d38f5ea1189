import { describe, expect, test } from "vitest";
import { type Balancer, balancerName, firewallName, parseChainName } from "../../../src/ruleset/chain-names.ts";
import { staticChains } from "../../../src/ruleset/static-chains.ts";
import { familyContext, servicePort } from "../../support/build.ts";

const KINDS = ["service", "nodeport"] as const;

const CHOICES: readonly Pick<Balancer, "scheduler" | "slots">[] = [
  { scheduler: "random", slots: false },
  { scheduler: "random", slots: true },
  { scheduler: "round-robin", slots: false },
  { scheduler: "round-robin", slots: true },
  { scheduler: "source-hash", slots: true },
  { scheduler: "flow-hash", slots: true },
];

describe("parseChainName", () => {
  test("reads every balancer's name back", () => {
    const balancers = KINDS.flatMap((kind) =>
      [true, false].flatMap((shortcut) =>
        [0, 1, 10800].flatMap((affinitySeconds) =>
          CHOICES.map((choice): Balancer => ({ kind, shortcut, count: 12, affinitySeconds, ...choice })),
        ),
      ),
    );
    for (const balancer of balancers) {
      expect(parseChainName(balancerName(balancer))).toEqual({ kind: "balancer", balancer });
    }
  });

  test("reads the name of a firewall chain, also of a nameless port", () => {
    expect(parseChainName(firewallName(servicePort({})))).toEqual({ kind: "firewall" });
    expect(parseChainName("firewall-shop/cart/sctp/http-alt")).toEqual({ kind: "firewall" });
  });

  test("reads the name of every static chain", () => {
    for (const { name } of staticChains(familyContext("ip"))) {
      expect(parseChainName(name)).toEqual({ kind: "static", name });
    }
  });

  test.each([
    "",
    "balance-",
    "balance-0",
    "balance-3-60",
    "affinity-3",
    "affinity-cluster-3",
    "my-balance-3",
    "affinity-balance-3-60",
    "hash-251",
    "source-hash-0",
    "firewall-x",
  ])("gives undefined for %j, which is no name of ours", (name) => expect(parseChainName(name)).toBeUndefined());
});
