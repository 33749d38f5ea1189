import { describe, expect, test } from "vitest";
import { RANGES } from "../../../src/features/port-ranges/rules.ts";
import { nextNumber } from "../../../src/nft/ast/expression.ts";
import type { Chain } from "../../../src/nft/ast/ruleset.ts";
import { ruleText } from "../../../src/nft/text/rule-text.ts";
import { balancerChain, chooserChain, rememberChain } from "../../../src/ruleset/balancers.ts";
import { type Balancer, balancerName, chooserName } from "../../../src/ruleset/chain-names.ts";
import { type DrawMethod, RANDOM } from "../../../src/ruleset/draws.ts";
import { type FrontendKind, PORTS } from "../../../src/ruleset/frontend-kinds.ts";

const plain: Balancer = { method: RANDOM, count: 3, affinitySeconds: 0, local: false };
const sticky: Balancer = { ...plain, affinitySeconds: 60 };
/** A way to draw as a feature may have it: two numbers that follow each other. */
const TURNS: DrawMethod = {
  name: "in-turn",
  counts: [7],
  numbers: (_, count) => [nextNumber(count, 0), nextNumber(count - 1, 1)],
};

test.each<[string, Partial<Balancer>, FrontendKind?]>([
  ["balance-3", {}],
  ["range-balance-3", {}, RANGES],
  ["affinity", { affinitySeconds: 600 }],
  ["affinity-local", { affinitySeconds: 600, local: true }],
  ["affinity-both", { affinitySeconds: 600, bothLists: true }],
  ["affinity-both-local", { affinitySeconds: 600, bothLists: true, local: true }],
  ["range-affinity", { affinitySeconds: 600 }, RANGES],
  ["range-affinity-both-local", { affinitySeconds: 600, bothLists: true, local: true }, RANGES],
  ["in-turn-7", { method: TURNS, count: 7 }],
  ["affinity", { method: TURNS, count: 7, affinitySeconds: 60 }],
  ["affinity-local", { method: TURNS, affinitySeconds: 60, local: true }],
])(
  "the chain name %s tells all that the rules of the balancer depend on (%j)",
  (name, options, kind = PORTS) => {
    expect(balancerName({ ...plain, ...options }, kind)).toBe(name);
    expect(balancerChain("ip", { ...plain, ...options }, kind).name).toBe(name);
  },
);

const REGISTER = { meta: { key: "priority" } };
const TRANSPORT = { match: { op: "==", left: { meta: { key: "l4proto" } }, right: "@port-protocols" } };
const numgen = (mode: string, mod: number, offset = 0) => ({ numgen: { mode, mod, offset } });
const toEndpoint = (number: object) => ({
  dnat: { family: "ip", addr: { map: { key: { concat: [REGISTER, number] }, data: "@endpoints" } } },
});
const goto = (target: string) => ({ goto: { target } });

/** The rules of a chain as nft prints them. */
const texts = ({ rules }: Chain) => rules.map(ruleText);
const drawing = (count: number, map = "@endpoints") =>
  `meta l4proto @port-protocols dnat ip to meta priority . numgen random mod ${count} map ${map}`;

describe("the chain of a balancer without affinity", () => {
  test("draws a number at random and goes to the endpoint that has it, or else to the one chain with the first endpoint", () => {
    expect(balancerChain("ip", plain).rules).toEqual([
      [TRANSPORT, toEndpoint(numgen("random", 3))],
      [goto("balance-1")],
    ]);
  });

  test("draws the numbers of another way one after another", () => {
    expect(balancerChain("ip", { ...plain, method: TURNS, count: 7 }).rules).toEqual([
      [TRANSPORT, toEndpoint(numgen("inc", 7))],
      [TRANSPORT, toEndpoint(numgen("inc", 6, 1))],
      [goto("balance-1")],
    ]);
  });

  test("is one rule for one endpoint", () => {
    expect(balancerChain("ip", { ...plain, count: 1 }).rules).toEqual([
      [TRANSPORT, toEndpoint(numgen("random", 1))],
    ]);
  });

  test("draws once among up to 64 endpoints", () => {
    expect(texts(balancerChain("ip", { ...plain, count: 64 }))).toEqual([drawing(64), "goto balance-1"]);
  });

  test("draws twice among more than 64 endpoints, then among the next lower number, then takes the first", () => {
    expect(texts(balancerChain("ip", { ...plain, count: 72 }))).toEqual([
      drawing(72),
      drawing(72),
      drawing(64),
      "goto balance-1",
    ]);
  });

  test("keeps the port for a port range, and falls back to the first endpoint of ranges", () => {
    expect(texts(balancerChain("ip", plain, RANGES))).toEqual([
      "meta l4proto @port-protocols dnat to meta priority . numgen random mod 3 map @range-endpoints",
      "goto range-balance-1",
    ]);
  });
});

describe("the chain of a balancer with affinity", () => {
  const id = "meta priority & ffff:c000";
  const localId = "meta priority & ffff:c001 | 0:1";

  test("keeps a client, else forgets it, chooses and remembers, and needs no room in the map at last", () => {
    expect(texts(balancerChain("ip", sticky))).toEqual([
      `meta priority set ${id} . ip saddr map @affinity-clients ${id} vmap @affinity-timeouts`,
      drawing(1),
      `delete @affinity-clients { ${id} . ip saddr : none }`,
      `meta priority set ${id} meta priority vmap @affinity-choosers`,
      `${id} vmap @affinity-timeouts`,
      drawing(1),
      `meta l4proto @port-protocols meta priority set ${id} . numgen random mod 1 map @affinity-ids ${drawing(1).replace("meta l4proto @port-protocols ", "")}`,
    ]);
  });

  test.each<[string, Partial<Balancer>, FrontendKind?]>([
    ["numbers of endpoints", { count: 72 }],
    ["timeouts", { affinitySeconds: 10_800 }],
    ["ways to draw", { method: TURNS, count: 7 }],
  ])("is the same for other %s", (_, options) => {
    expect(balancerChain("ip", { ...sticky, ...options })).toEqual(balancerChain("ip", sticky));
  });

  test("over the node's own endpoints has numbers and members apart from those of the cluster, and the same clients", () => {
    const text = texts(balancerChain("ip", { ...sticky, local: true })).join("\n");
    expect(text).toContain(`meta priority set ${localId} meta priority vmap @affinity-choosers`);
    expect(text).toContain(`meta priority set ${localId} . numgen random mod 1 map @affinity-ids`);
    expect(new Set(text.match(/[^ ]+ [^ ]+ map @endpoints/g))).toEqual(new Set(["offset 1 map @endpoints"]));
    expect(text).toContain(`delete @affinity-clients { ${id} . ip saddr`);
    expect(text).not.toContain(`${localId} vmap @affinity-timeouts`);
  });

  test.each([
    ["of the cluster", false, "cluster", "local"],
    ["of the node", true, "local", "cluster"],
  ] as const)(
    "over a list %s, where there is another, begins with a client's endpoint there and writes its own entry",
    (_, local, own, other) => {
      const nameOf = (text: string) => (text.includes(localId) ? "local" : "cluster");
      const uses = texts(balancerChain("ip", { ...sticky, local, bothLists: true })).map((text) => {
        const [finding, remembering = ""] = text.split(" map @affinity-clients ");
        if (remembering !== "") return [`find ${nameOf(finding ?? "")}`, `remember ${nameOf(remembering)}`];
        if (text.startsWith("delete")) return [`delete ${nameOf(text)}`];
        if (text.endsWith("@affinity-choosers")) return [`choose ${nameOf(text)}`];
        if (text.endsWith("@affinity-timeouts")) return [`remember ${nameOf(text)}`];
        return text.includes("@affinity-ids") ? [`first ${nameOf(text)}`, "go"] : ["go"];
      });
      expect(uses).toEqual([
        [`find ${own}`, `remember ${own}`],
        ["go"],
        [`delete ${own}`],
        [`find ${other}`, `remember ${own}`],
        ["go"],
        [`delete ${own}`],
        [`choose ${own}`],
        [`remember ${own}`],
        ["go"],
        [`first ${own}`, "go"],
      ]);
    },
  );

  test("for a port range shares clients and numbers with ports, and has endpoints without a port", () => {
    const sets = (kind: FrontendKind) =>
      new Set(texts(balancerChain("ip", sticky, kind)).flatMap((text) => text.match(/@[^ ]+/g) ?? []));
    const ofPorts = [...sets(PORTS)];
    expect(sets(RANGES)).toEqual(
      new Set(ofPorts.map((set) => (set === "@endpoints" ? "@range-endpoints" : set))),
    );
  });
});

describe("the chain that chooses an endpoint for affinity", () => {
  test("draws a number and takes the id that has it, or else that of the first endpoint", () => {
    const taken = (number: object) => ({
      map: { key: { concat: [REGISTER, number] }, data: "@affinity-ids" },
    });
    const take = (number: object) => [{ mangle: { key: REGISTER, value: taken(number) } }, { return: null }];
    expect(chooserChain("ip", { method: TURNS, count: 7 })).toEqual({
      name: chooserName({ method: TURNS, count: 7 }),
      rules: [take(numgen("inc", 7)), take(numgen("inc", 6, 1)), [goto("choose-balance-1")]],
    });
  });

  test("is one rule for one endpoint, and draws three times among more than 64", () => {
    const taking = (count: number) =>
      `meta priority set meta priority . numgen random mod ${count} map @affinity-ids return`;
    expect(texts(chooserChain("ip", { ...plain, count: 1 }))).toEqual([taking(1)]);
    expect(texts(chooserChain("ip", { ...plain, count: 72 }))).toEqual([
      taking(72),
      taking(72),
      taking(64),
      "goto choose-balance-1",
    ]);
  });

  test("is named after the way to draw and the number", () => {
    expect(chooserChain("ip", plain).name).toBe("choose-balance-3");
    expect(chooserChain("ip", { method: TURNS, count: 7 }).name).toBe("choose-in-turn-7");
  });
});

describe("the chain that remembers a client's endpoint", () => {
  test("updates the client's entry with the timeout in its name", () => {
    const chain = rememberChain("ip6", 600, false);
    expect([chain.name, ...texts(chain)]).toEqual([
      "remember-600",
      "update @affinity-clients { meta priority & ffff:c000 . ip6 saddr timeout 10m : meta priority }",
    ]);
  });

  test("updates a second entry for the node's own endpoints if the client has one for the cluster's, too", () => {
    const chain = rememberChain("ip", 10_800, true);
    expect([chain.name, ...texts(chain)]).toEqual([
      "remember-local-10800",
      "update @affinity-clients { meta priority & ffff:c001 | 0:1 . ip saddr timeout 3h : meta priority }",
    ]);
  });
});
