import { describe, expect, test } from "vitest";
import { RANGES } from "../../../src/features/port-ranges/rules.ts";
import type { Chain } from "../../../src/nft/ast/ruleset.ts";
import { ruleText } from "../../../src/nft/text/rule-text.ts";
import { balancerChain, chooserChain, rememberChain } from "../../../src/ruleset/balancers.ts";
import { type Balancer, balancerName, chooserName, type Draw } from "../../../src/ruleset/chain-names.ts";
import { type FrontendKind, PORTS } from "../../../src/ruleset/frontend-kinds.ts";

const plain: Balancer = { scheduler: "random", slots: false, count: 3, affinitySeconds: 0, local: false };
const sticky: Balancer = { ...plain, affinitySeconds: 60 };

test.each<[string, Partial<Balancer>, FrontendKind?]>([
  ["balance-3", {}],
  ["range-balance-3", {}, RANGES],
  ["affinity", { affinitySeconds: 600 }],
  ["affinity-local", { affinitySeconds: 600, local: true }],
  ["affinity-both", { affinitySeconds: 600, both: true }],
  ["affinity-both-local", { affinitySeconds: 600, both: true, local: true }],
  ["range-affinity", { affinitySeconds: 600 }, RANGES],
  ["range-affinity-both-local", { affinitySeconds: 600, both: true, local: true }, RANGES],
  ["slots-251", { slots: true, count: 251 }],
  ["round-robin-3", { scheduler: "round-robin" }],
  ["round-robin-slots-251", { scheduler: "round-robin", slots: true, count: 251 }],
  ["source-hash-251", { scheduler: "source-hash", slots: true, count: 251 }],
  ["flow-hash-251", { scheduler: "flow-hash", slots: true, count: 251 }],
  ["affinity", { slots: true, count: 251, affinitySeconds: 60 }],
  ["affinity", { scheduler: "source-hash", slots: true, count: 251, affinitySeconds: 60 }],
  ["affinity-local", { scheduler: "round-robin", affinitySeconds: 60, local: true }],
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
const jhash = (expr: object) => ({ jhash: { mod: 251, seed: 0x6e667470, offset: 0, expr } });

const DRAWS: readonly (readonly [string, Partial<Draw>, object])[] = [
  ["draws a number at random", {}, numgen("random", 3)],
  ["takes numbers in turn for round-robin", { scheduler: "round-robin" }, numgen("inc", 3)],
  [
    "hashes the client's address for source-hash",
    { scheduler: "source-hash", slots: true, count: 251 },
    jhash({ payload: { protocol: "ip", field: "saddr" } }),
  ],
  [
    "hashes addresses and ports, as bits of the packet, for flow-hash",
    { scheduler: "flow-hash", slots: true, count: 251 },
    jhash({ payload: { base: "nh", offset: 96, len: 96 } }),
  ],
];

/** The rules of a chain as nft prints them. */
const texts = ({ rules }: Chain) => rules.map(ruleText);
const drawing = (count: number, map = "@endpoints") =>
  `meta l4proto @port-protocols dnat ip to meta priority . numgen random mod ${count} map ${map}`;

describe("the chain of a balancer without affinity", () => {
  test.each(DRAWS)(
    "%s and goes to the endpoint that has it, or else to the one chain with the first endpoint",
    (_, options, number) => {
      expect(balancerChain("ip", { ...plain, ...options }).rules).toEqual([
        [TRANSPORT, toEndpoint(number)],
        [goto("balance-1")],
      ]);
    },
  );

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
    expect(texts(balancerChain("ip", { ...plain, count: 81, scheduler: "round-robin" }))).toEqual([
      ...[81, 81, 72].map((count) => drawing(count).replace("random", "inc")),
      "goto balance-1",
    ]);
  });

  test("draws once among slots, however many there are, as each slot exists", () => {
    expect(texts(balancerChain("ip", { ...plain, slots: true, count: 251 }))).toEqual([
      drawing(251),
      "goto balance-1",
    ]);
  });

  test("keeps the port for a port range, and falls back to the first endpoint of ranges", () => {
    expect(texts(balancerChain("ip", plain, RANGES))).toEqual([
      "meta l4proto @port-protocols dnat to meta priority . numgen random mod 3 map @range-endpoints",
      "goto range-balance-1",
    ]);
  });

  test("hashes longer addresses for flow-hash in IPv6", () => {
    const chain = balancerChain("ip6", { ...plain, scheduler: "flow-hash", slots: true, count: 251 });
    expect(JSON.stringify(chain)).toContain('{"payload":{"base":"nh","offset":64,"len":288}}');
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
    ["schedulers", { scheduler: "round-robin" }],
    ["hashes and slots", { scheduler: "source-hash", slots: true, count: 251 }],
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
      const uses = texts(balancerChain("ip", { ...sticky, local, both: true })).map((text) => {
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
  test.each(DRAWS)(
    "%s and takes the id that has it, or else that of the first endpoint",
    (_, options, number) => {
      const draw: Draw = { scheduler: "random", slots: false, count: 3, ...options };
      const taken = { map: { key: { concat: [REGISTER, number] }, data: "@affinity-ids" } };
      expect(chooserChain("ip", draw)).toEqual({
        name: chooserName(draw),
        rules: [[{ mangle: { key: REGISTER, value: taken } }, { return: null }], [goto("choose-balance-1")]],
      });
    },
  );

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

  test.each<[string, Draw]>([
    ["choose-balance-2", { scheduler: "random", slots: false, count: 2 }],
    ["choose-slots-251", { scheduler: "random", slots: true, count: 251 }],
    ["choose-round-robin-3", { scheduler: "round-robin", slots: false, count: 3 }],
    ["choose-source-hash-251", { scheduler: "source-hash", slots: true, count: 251 }],
  ])("is named %s, after the scheduler and number", (name, draw) => {
    expect(chooserChain("ip", draw).name).toBe(name);
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
