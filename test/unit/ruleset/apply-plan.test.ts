import { describe, expect, test } from "vitest";
import { FRONTEND_KINDS } from "../../../src/features/frontends.ts";
import { DEFAULT_PASSIVE_HEALTH_CHECK } from "../../../src/features/passive-health-checks/check.ts";
import type { Transaction } from "../../../src/nft/ast/json.ts";
import type { Ruleset } from "../../../src/nft/ast/ruleset.ts";
import { diffRuleset, type TableDelta } from "../../../src/nft/delta.ts";
import { toTransaction } from "../../../src/nft/transaction.ts";
import {
  applyPlan,
  transactionsOf,
  trialTransactions,
  withoutObjectDeletions,
} from "../../../src/ruleset/apply-plan.ts";
import type { FamilyContext } from "../../../src/ruleset/node-context.ts";
import { STEP_NAMES, type Step } from "../../../src/ruleset/plan-step.ts";
import { Renderer } from "../../../src/ruleset/renderer.ts";
import { evaluate } from "../../../src/trace/evaluate.ts";
import type { Packet } from "../../../src/trace/packet.ts";
import { cacheOf, port, renderAll, service, slice, testNodeContext } from "../../support/build.ts";
import { FakeKernel } from "../../support/fake-kernel.ts";
import { rulesetText } from "../../support/ruleset-text.ts";

/** A Service with these endpoints, and whatever else is asked for. */
const rules = (
  endpoints: readonly string[],
  options: Parameters<typeof service>[0] = {},
  context: Parameters<typeof testNodeContext>[0] = {},
): Ruleset =>
  renderAll({ services: [service(options)], slices: [slice({ endpoints })] }, testNodeContext(context)).state
    .ruleset;

const MANY = Array.from({ length: 9 }, (_, n) => `10.244.1.${n}`);
const NONE = renderAll({}).state.ruleset;
/** Port ranges, each of one port. */
const ranges = (...ports: readonly number[]) => ({
  ports: [
    {
      name: "",
      protocol: "tcp",
      port: 80,
      nodePort: 0,
      ranges: ports.map((one) => ({ first: one, last: one })),
    },
  ] as const,
});

const namesOf = (steps: readonly Step[]) => steps.map(({ name }) => name);
const planned = (before: Ruleset, after: Ruleset, chunkSize?: number) =>
  namesOf(applyPlan(diffRuleset(before, after), { chunkSize, kinds: FRONTEND_KINDS }));

function tableOf({ ip }: Ruleset) {
  if (ip === undefined) throw new Error("no table");
  return ip;
}

/** The sets in which transactions change elements, without repetitions. */
const setsIn = (transactions: Iterable<Transaction>) => [
  ...new Set(
    [...JSON.stringify([...transactions]).matchAll(/"element":\{[^}]*?"name":"([^"]+)"/g)].map(
      ([, name]) => name,
    ),
  ),
];

describe("a plan", () => {
  const ONE = rules(["10.244.1.1"]);
  const STICKY = rules(["10.244.1.1"], { affinitySeconds: 60 });
  const ANEW = rules(["10.244.1.1"], {}, { affinityMapSize: 7 });
  const { ip6 } = ONE;
  const other = service({ name: "other", clusterIPs: ["10.96.0.11"] });
  const both = {
    services: [service(), other],
    slices: [slice({ endpoints: MANY }), slice({ service: "other", endpoints: MANY })],
  };
  const BOTH = renderAll(both).state.ruleset;

  function withoutDropChain(): Ruleset {
    const { ruleset } = renderAll({ services: [other], slices: both.slices }).state;
    return {
      ...ruleset,
      ip: {
        ...tableOf(ruleset),
        chains: new Map([...tableOf(ruleset).chains].filter(([name]) => name !== "drop-chain")),
      },
    };
  }

  /** Three addresses whose connections are reset, from this one on. */
  function vanished(first: number): Ruleset {
    const { state } = renderAll({}, testNodeContext({ resetVanished: true }));
    state.families.ip?.setKeys(
      "connection-life",
      new Set([0, 1, 2].map((n) => `10.244.1.${first + n} . 80`)),
    );
    return state.ruleset;
  }

  test.each<[string, readonly Step["name"][], Ruleset, Ruleset, number?]>([
    ["of nothing", [], ONE, ONE],
    ["of missing tables", ["new tables"], {}, ONE],
    [
      "of missing tables with many elements",
      ["new tables", "elements of new tables", "base chains of new tables"],
      {},
      rules(MANY),
      2,
    ],
    ["of an element", ["everything at once"], ONE, rules(["10.244.1.2"])],
    ["of a list that needs a chain", ["new sets and chains", "everything at once"], ONE, rules(MANY)],
    [
      "of other rules in a chain, many elements or not",
      ["new sets and chains", "everything at once"],
      NONE,
      rules(MANY, {}, { masqueradeAll: true }),
      2,
    ],
    ["of other declarations", ["everything at once", "removed handover chains"], ONE, ANEW],
    ["of many elements", ["new sets and chains", "new elements", "new entries"], NONE, rules(MANY), 2],
    [
      "of many removed elements",
      ["removed entries", "removed elements", "removed chains"],
      rules(MANY),
      NONE,
      2,
    ],
    [
      "of a frontend that gets another list",
      ["new sets and chains", "new elements", "other values", "removed elements", "removed chains"],
      ONE,
      STICKY,
    ],
    [
      "of ranges that are cut anew",
      ["second maps", "intervals", "removed second maps"],
      rules(MANY, ranges(1000, 1002)),
      rules(MANY, ranges(1000, 1003)),
    ],
    [
      "of elements of a set that may be full",
      ["room in limited sets", "new elements"],
      vanished(1),
      vanished(4),
      2,
    ],
    [
      "of a chain that is missing beside many elements",
      ["declarations", "new elements", "new entries"],
      withoutDropChain(),
      BOTH,
      2,
    ],
    [
      "of one missing table beside changes of the other",
      ["new tables", "everything at once"],
      { ip6: ip6 as NonNullable<typeof ip6> },
      {
        ...rules(["10.244.1.1"]),
        ip6: rules([], { clusterIPs: ["fd00::1"] }).ip6 as NonNullable<typeof ip6>,
      },
    ],
  ])("%s has its steps in their order", (_, names, before, after, chunkSize) => {
    expect(planned(before, after, chunkSize)).toEqual(names);
    const places = names.map((name) => STEP_NAMES.indexOf(name));
    expect(places).toEqual([...places].sort((a, b) => a - b));
  });
});

test("no step drops a client of a range that both the earlier and the later source ranges allow", () => {
  const guarded = (...sourceRanges: readonly string[]) =>
    service({ ...ranges(1000), loadBalancerIPs: ["203.0.113.1"], sourceRanges });
  const cache = cacheOf({
    services: [guarded("10.0.0.0/8")],
    slices: [slice({ endpoints: ["10.244.1.1"] })],
  });
  const renderer = new Renderer(cache, testNodeContext());
  renderer.update(cache.takeDirty());
  const packet: Packet = {
    from: { address: "10.1.2.3", at: "outside", iifname: "eth0" },
    ...{ to: "203.0.113.1", port: 1000, protocol: "tcp" },
  };
  const kernel = new FakeKernel();
  const outcomes = () =>
    evaluate(Object.values(kernel.ruleset), { localAddresses: new Set() }, packet).map(({ kind }) => kind);
  kernel.apply(toTransaction(diffRuleset({}, renderer.state.ruleset)));
  cache.putService(guarded("10.1.0.0/16"));
  renderer.update(cache.takeDirty());
  const steps = applyPlan(diffRuleset(kernel.ruleset, renderer.state.ruleset), { kinds: FRONTEND_KINDS });
  expect(namesOf(steps)).toContain("second maps");
  for (const step of steps) {
    for (const transaction of transactionsOf(step)) kernel.apply(transaction);
    expect([step.name, ...outcomes()]).toEqual([step.name, "delivered"]);
  }
});

test("no step loses a range that moves from a sticky Service whose endpoints change", () => {
  const ADDRESS = "203.0.113.1";
  const both = (owner: "a" | "b", endpoint: string) => {
    const withRange = (name: string) => (name === owner ? { ranges: [{ first: 1000, last: 1009 }] } : {});
    const one = (name: string, number: number, affinitySeconds: number) =>
      service({
        name,
        clusterIPs: [`10.96.0.${number}`],
        loadBalancerIPs: [ADDRESS],
        affinitySeconds,
        ports: [port(number, withRange(name))],
      });
    return renderAll(
      {
        services: [one("a", 80, 60), one("b", 81, 0)],
        slices: [
          slice({ service: "a", endpoints: [endpoint] }),
          slice({ service: "b", endpoints: ["10.244.2.1"] }),
        ],
      },
      testNodeContext(),
    ).state.ruleset;
  };
  const packet: Packet = {
    from: { address: "10.1.2.3", at: "outside", iifname: "eth0" },
    ...{ to: ADDRESS, port: 1000, protocol: "tcp" },
  };
  const kernel = new FakeKernel();
  kernel.apply(toTransaction(diffRuleset({}, both("a", "10.244.1.1"))));
  const steps = applyPlan(diffRuleset(kernel.ruleset, both("b", "10.244.1.2")), {
    kinds: FRONTEND_KINDS,
  });
  expect(namesOf(steps)).toContain("values kept for intervals");
  for (const step of steps) {
    for (const transaction of transactionsOf(step)) kernel.apply(transaction);
    const outcomes = evaluate(Object.values(kernel.ruleset), { localAddresses: new Set() }, packet);
    expect([step.name, ...outcomes]).toEqual([
      step.name,
      expect.objectContaining({ kind: "delivered", translated: true }),
    ]);
  }
});

test("no step loses a NodePort whose addresses change while the last source ranges go", () => {
  const withNodePort = (guarded: boolean, nodePorts: FamilyContext["nodePorts"]): Ruleset => {
    const { ip } = rules(
      ["10.244.1.1"],
      {
        ports: [port(80, { nodePort: 30080 })],
        loadBalancerIPs: ["203.0.113.1"],
        sourceRanges: guarded ? ["10.0.0.0/8"] : [],
      },
      { nodePorts },
    );
    return ip === undefined ? {} : { ip };
  };
  const kernel = new FakeKernel();
  const before = withNodePort(true, { kind: "addresses", addresses: ["192.0.2.2"] });
  kernel.apply(toTransaction(diffRuleset({}, before)));
  const after = withNodePort(false, { kind: "all" });
  const packet: Packet = {
    from: { address: "10.1.2.3", at: "outside", iifname: "eth0" },
    ...{ to: "192.0.2.2", port: 30080, protocol: "tcp" },
  };
  for (const step of applyPlan(diffRuleset(before, after), { chunkSize: 0, kinds: FRONTEND_KINDS })) {
    for (const transaction of transactionsOf(step)) kernel.apply(transaction);
    const outcomes = evaluate(
      Object.values(kernel.ruleset),
      { localAddresses: new Set(["192.0.2.2"]) },
      packet,
    );
    expect([step.name, ...outcomes]).toEqual([
      step.name,
      expect.objectContaining({ kind: "delivered", translated: true }),
    ]);
  }
  expect(rulesetText(kernel.ruleset)).toBe(rulesetText(after));
});

test.each([0, 100])(
  "no step admits a client that the source ranges of a deleted Service exclude while port ranges come, with %i elements in a transaction",
  (chunkSize) => {
    const kernel = new FakeKernel();
    const guarded = { loadBalancerIPs: ["203.0.113.1"], sourceRanges: ["10.0.0.0/8"] };
    const before = rules(["10.244.1.1"], guarded);
    kernel.apply(toTransaction(diffRuleset({}, before)));
    const after = rules(["10.244.1.1"], ranges(1000));
    const packet: Packet = {
      from: { address: "198.51.100.1", at: "outside", iifname: "eth0" },
      ...{ to: "203.0.113.1", port: 80, protocol: "tcp" },
    };
    for (const step of applyPlan(diffRuleset(before, after), { chunkSize, kinds: FRONTEND_KINDS })) {
      for (const transaction of transactionsOf(step)) kernel.apply(transaction);
      const outcomes = evaluate(Object.values(kernel.ruleset), { localAddresses: new Set() }, packet);
      expect([step.name, outcomes.some((one) => one.kind === "delivered" && one.translated)]).toEqual([
        step.name,
        false,
      ]);
    }
  },
);

test("chains that only lose rules do not change before the elements that lead there are gone", () => {
  const guarded = rules(["10.244.1.1"], { loadBalancerIPs: ["203.0.113.1"], sourceRanges: ["10.0.0.0/8"] });
  const steps = applyPlan(diffRuleset(guarded, rules(["10.244.1.1"], ranges(1000))), {
    kinds: FRONTEND_KINDS,
  });
  const first = steps.find(({ name }) => name === "changed chains")?.deltas.flatMap(({ objects }) => objects);
  expect(first?.map(({ name }) => name)).toContain("services");
  for (const { name, before, after } of first ?? [])
    expect([name, JSON.stringify(after)]).not.toEqual([name, JSON.stringify(before)]);
});

test("intervals with source ranges are replaced behind a second map, whatever the chain that looks there loses", () => {
  const odd = Array.from({ length: 60 }, (_, n) => 1000 + 2 * n);
  const withOthers = (
    rangesOfA: readonly number[],
    limits: Parameters<typeof service>[0],
    timeouts: Parameters<typeof service>[0],
  ) =>
    renderAll({
      services: [
        service({
          ...ranges(...rangesOfA),
          loadBalancerIPs: ["203.0.113.1"],
          sourceRanges: ["10.0.0.0/8"],
        }),
        service({ name: "limited", clusterIPs: ["10.96.0.11"], ...limits }),
        service({ name: "timed", clusterIPs: ["10.96.0.12"], ...timeouts }),
      ],
      slices: ["web", "limited", "timed"].map((name) => slice({ service: name, endpoints: ["10.244.1.1"] })),
    }).state.ruleset;
  const before = withOthers(odd, { clientLimits: { connections: 1 } }, {});
  const after = withOthers(odd.slice(50), {}, { connectionTimeouts: { "tcp-established": 60_000 } });
  const steps = applyPlan(diffRuleset(before, after), { kinds: FRONTEND_KINDS });
  expect(namesOf(steps).slice(0, 3)).toEqual(["new sets and chains", "changed chains", "second maps"]);
  expect(steps[2]?.deltas.flatMap(({ objects }) => objects.map(({ name }) => name))).toEqual(
    expect.arrayContaining(["range-lists-handover", "range-source-range-lists-handover"]),
  );
});

test.each<[string, Parameters<typeof rules>[1]]>([
  ["source ranges", { loadBalancerIPs: ["203.0.113.1"], sourceRanges: ["10.0.0.0/8"] }],
  ["port ranges", ranges(1000)],
  ["client limits", { clientLimits: { connections: 1 } }],
  ["a passive health check", { passiveHealthCheck: DEFAULT_PASSIVE_HEALTH_CHECK }],
  ["connection timeouts", { connectionTimeouts: { "tcp-established": 60_000 } }],
])("a large plan that takes away the last Service with %s has steps: its chains go last", (_, options) => {
  const steps = planned(rules(MANY, { ...options, clusterIPs: ["10.96.0.10", "fd00::1"] }), NONE, 2);
  expect(steps).toContain("chains without removed sets");
  expect(steps).not.toContain("everything at once");
});

describe("the elements of a plan", () => {
  const sizes = (transactions: Iterable<Transaction>) =>
    [...transactions].map(
      ({ nftables }) =>
        nftables.flatMap((command) =>
          Object.values(command).flatMap((object) => ("element" in object ? object.element.elem : [])),
        ).length,
    );

  test("of new tables come in chunks of the given size, and hooks with the last transaction alone", () => {
    const [tables, elements, base, ...more] = applyPlan(diffRuleset({}, rules(MANY.slice(0, 3))), {
      chunkSize: 2,
    });
    if (tables === undefined || elements === undefined || base === undefined) throw new Error("no steps");
    expect(sizes(transactionsOf(elements, 2))).toEqual([2, 2, 2, 2, 2, 2, 2]);
    expect(more).toEqual([]);
    const texts = [tables, base].map(({ deltas }) => JSON.stringify(toTransaction(deltas)));
    expect(texts.map((text) => text.includes('"hook"'))).toEqual([false, true]);
    expect(texts.map((text) => text.includes('"element"'))).toEqual([false, false]);
  });

  test("that lead to others come last and go first", () => {
    const sets = (before: Ruleset, after: Ruleset) =>
      setsIn(
        applyPlan(diffRuleset(before, after), { chunkSize: 2, kinds: FRONTEND_KINDS }).flatMap((step) => [
          ...transactionsOf(step, 2),
        ]),
      );
    const come = sets(NONE, rules(MANY));
    expect(come.length).toBeGreaterThan(2);
    expect(come.at(-1)).toBe("lists");
    const go = sets(rules(MANY), NONE);
    expect(go.length).toBeGreaterThan(2);
    expect(go[0]).toBe("lists");
  });

  test("of new source ranges come before the frontends that lead to them, and go after them", () => {
    const guarded = (sourceRanges: readonly string[]) =>
      service({ loadBalancerIPs: ["203.0.113.1"], sourceRanges });
    const cache = cacheOf({ services: [guarded(["10.0.0.0/8"])], slices: [slice({ endpoints: MANY })] });
    const renderer = new Renderer(cache, testNodeContext());
    renderer.update(cache.takeDirty());
    const kernel = new FakeKernel();
    kernel.apply(toTransaction(diffRuleset({}, renderer.state.ruleset)));
    cache.putService(guarded(["192.0.2.0/24"]));
    renderer.update(cache.takeDirty());
    renderer.state.deleteStale();
    const steps = applyPlan(diffRuleset(kernel.ruleset, renderer.state.ruleset), { kinds: FRONTEND_KINDS });
    expect(steps.map((step) => [step.name, setsIn(transactionsOf(step))])).toEqual([
      ["new sets and chains", ["source-ranges"]],
      ["everything at once", ["source-range-lists"]],
      ["removed source ranges", ["source-ranges"]],
    ]);
  });

  test("of ranges are replaced in one transaction, however many, for no two may overlap", () => {
    const [before, after] = [0, 1].map((first) =>
      rules(MANY, ranges(...MANY.map((_, n) => 1000 + 2 * n + first))),
    );
    const steps = applyPlan(diffRuleset(before ?? {}, after ?? {}), { chunkSize: 2, kinds: FRONTEND_KINDS });
    const sent = steps.map((step) => [step.name, [...transactionsOf(step, 2)].length]);
    expect(sent).toContainEqual(["intervals", 1]);
  });

  test("are tried in parts, each with the declarations that they need", () => {
    const trials = [
      ...trialTransactions(withoutObjectDeletions(diffRuleset(NONE, rules(MANY))).main, FRONTEND_KINDS, 2),
    ];
    expect(Math.max(...sizes(trials))).toBe(2);
    for (const trial of trials) expect(JSON.stringify(trial)).toContain('"add":{"chain"');
  });
});

describe("the deletion of chains", () => {
  test("comes after the elements that led to them, in a transaction of its own", () => {
    const limited = (connections: number) => rules(["10.244.1.1"], { clientLimits: { connections } });
    const [before, after] = [limited(1), limited(2)];
    const kernel = new FakeKernel();
    kernel.apply(toTransaction(diffRuleset({}, before)));
    const { main, objectDeletions } = withoutObjectDeletions(diffRuleset(before, after));
    kernel.apply(toTransaction(main));
    const [one, two] = ["client-limit-1", "client-limit-2"];
    expect([...tableOf(kernel.ruleset).chains.keys()]).toEqual(expect.arrayContaining([one, two]));
    expect(commandsOf(objectDeletions)).toEqual([`flush chain ${one}`, `delete chain ${one}`]);
    kernel.apply(toTransaction(objectDeletions));
    expect(rulesetText(kernel.ruleset)).toBe(rulesetText(after));
  });

  test("takes with it the sets that they look into, after the rules and before the chains", () => {
    const [before, after] = [true, false].map((resetVanished) => rules([], {}, { resetVanished }));
    const { main, objectDeletions } = withoutObjectDeletions(diffRuleset(before ?? {}, after ?? {}));
    expect(commandsOf(main)).not.toContain("delete set vanished");
    const sent = commandsOf(objectDeletions);
    const places = [
      "flush chain vanished-endpoints-check",
      "delete set vanished",
      "delete chain vanished-endpoints-check",
    ];
    expect(places.map((line) => sent.indexOf(line))).toEqual([2, 3, 6]);
  });
});

/** `delete chain balance-1` for each command. */
function commandsOf(deltas: readonly TableDelta[]): string[] {
  return toTransaction(deltas).nftables.map((command) => {
    const [verb = "", object = {}] = Object.entries(command)[0] ?? [];
    const [kind = "", { name = "" } = {}] =
      Object.entries(object as Record<string, { name?: string }>)[0] ?? [];
    return `${verb} ${kind} ${name}`;
  });
}
