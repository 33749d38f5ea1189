import { describe, expect, test } from "vitest";
import {
  type Balancer,
  balancerName,
  firewallNames,
  parseChainName,
  pingName,
} from "../../../src/ruleset/chain-names.ts";
import { staticChains } from "../../../src/ruleset/static-chains.ts";
import { familyContext } from "../../support/build.ts";

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
    const kinds = [0, 1, 10800].flatMap((affinitySeconds) =>
      (affinitySeconds === 0 ? [false] : [true, false]).flatMap((local) => [
        { affinitySeconds, local },
        ...(affinitySeconds === 0 ? [] : [{ affinitySeconds, local, both: true as const }]),
      ]),
    );
    for (const kind of kinds) {
      for (const choice of CHOICES) {
        const balancer: Balancer = { count: 12, ...kind, ...choice };
        expect(parseChainName(balancerName(balancer))).toEqual({ kind: "balancer", balancer });
      }
    }
  });

  test("reads the name of a chain of source ranges", () => {
    expect(parseChainName(firewallNames("0123456789abcdef0123").chain)).toEqual({ kind: "firewall" });
  });

  test("reads the name of a chain that answers pings of some clients", () => {
    expect(parseChainName(pingName("0123456789abcdef0123"))).toEqual({ kind: "ping" });
  });

  test("reads the name of every static chain", () => {
    for (const { name } of staticChains(familyContext("ip", { resetVanished: true, answerPing: true }))) {
      expect(parseChainName(name)).toEqual({ kind: "static", name });
    }
  });

  test.each([
    "",
    "balance-",
    "balance-0",
    "balance-3-60",
    "balance-local-3",
    "affinity-3",
    "affinity-local-3",
    "affinity-local-both-3-60",
    "my-balance-3",
    "affinity-balance-3-60",
    "hash-251",
    "source-hash-0",
    "firewall-x",
    "firewall-shop/cart/tcp/http",
  ])("gives undefined for %j, which is no name of ours", (name) =>
    expect(parseChainName(name)).toBeUndefined(),
  );
});
