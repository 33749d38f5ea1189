import { describe, expect, test } from "vitest";
import type { ClientLimits } from "../../../src/features/client-limits/limits.ts";
import { chainName, rules } from "../../../src/features/client-limits/rules.ts";
import type { Rule } from "../../../src/nft/ast/json.ts";
import { ruleText } from "../../../src/nft/text/rule-text.ts";
import { rebuildTransaction } from "../../../src/nft/transaction.ts";
import { adoptNumbers } from "../../../src/ruleset/adopt-numbers.ts";
import type { OwnBudget } from "../../../src/ruleset/node-context.ts";
import { Renderer } from "../../../src/ruleset/renderer.ts";
import { evaluate } from "../../../src/trace/evaluate.ts";
import { cacheOf, named, port, renderAll, service, slice, testNodeContext } from "../../support/build.ts";

const BOTH: ClientLimits = { connections: 100, rate: { amount: 20, per: "second", burst: 40 } };
const SLICE = slice({ service: "shop/web", endpoints: ["10.244.1.1", "10.244.2.1"] });
const limited = (clientLimits: ClientLimits, name = "shop/web", clusterIP = "10.96.0.10", createdAt = 0) =>
  service({ name, clusterIPs: [clusterIP], clientLimits, createdAt });
const plain = service({ name: "shop/web" });
const text = (renderer: Renderer) => JSON.stringify(rebuildTransaction(renderer.state.ruleset));
const elementsIn = ({ state }: Renderer, set: string) => [
  ...(state.families.ip?.table.sets.get(set)?.elements ?? []),
];
const rulesOf = ({ state }: Renderer, chain: string) =>
  (state.families.ip?.table.chains.get(chain)?.rules ?? []).map((rule) => ruleText(rule as Rule));

describe("the rules for client limits", () => {
  test("are there only while a Service has limits, and leave the bytes of the same objects without them", () => {
    const cache = cacheOf({ services: [limited(BOTH)], slices: [SLICE] });
    const renderer = new Renderer(cache, testNodeContext());
    renderer.update(cache.takeDirty());
    expect(text(renderer)).toMatch(/client-limits.*client-connections.*client-rates/);
    cache.putService(plain);
    renderer.update(cache.takeDirty());
    expect(text(renderer)).toBe(text(renderAll({ services: [plain], slices: [SLICE] })));
    expect(text(renderer)).not.toContain("client-");
  });

  test("are absent if the kernel cannot count connections", () => {
    const objects = { services: [limited(BOTH)], slices: [SLICE] };
    const none = testNodeContext({ lacking: ["client-limits"] });
    expect(text(renderAll(objects, none))).toBe(text(renderAll({ ...objects, services: [plain] }, none)));
    expect([...renderAll(objects, none).state.budgets.without("client-limits").values()]).toEqual([
      "this node's kernel cannot count connections",
    ]);
  });

  test("check after source ranges, the rate before the connections at a time", () => {
    const fenced = service({
      ...{ name: "shop/web", clientLimits: BOTH },
      ...{ loadBalancerIPs: ["203.0.113.7"], sourceRanges: ["10.0.0.0/8"] },
    });
    const renderer = renderAll({ services: [fenced], slices: [SLICE] });
    const check = "meta priority & ffff:fffc vmap @client-limits";
    expect(rulesOf(renderer, "balancing")[1]).toBe(check);
    expect(rulesOf(renderer, "external").slice(0, 2)).toEqual([
      "meta priority set ip daddr . meta l4proto . th dport map @source-range-lists jump source-ranges-check",
      check,
    ]);
    expect(elementsIn(renderer, "client-limits")).toEqual([
      ["2147483652", "jump client-limit-100-20-second-40"],
    ]);
    expect(rulesOf(renderer, "client-limit-100-20-second-40")).toEqual([
      "update @client-rates { meta priority & ffff:fffc . numgen random mod 1 offset 655380 . ip saddr timeout 2s limit rate over 20/second burst 40 packets } goto client-limit-refusal",
      "add @client-connections { meta priority & ffff:fffc . numgen random mod 1 offset 100 . ip saddr ct count over 100 } goto client-limit-refusal",
    ]);
    expect(rulesOf(renderer, "client-limit-refusal").slice(1)).toEqual(["reject with tcp reset", "drop"]);
  });

  test("have one chain for equal limits, and an element for each port of a Service", () => {
    const two = service({
      name: "shop/two",
      clusterIPs: ["10.96.0.11"],
      ports: [port(80, { name: "a" }), port(81, { name: "b" })],
      affinitySeconds: 60,
      clientLimits: { connections: 5 },
    });
    const ports = ["a", "b"].map((name) => ({ name, protocol: "tcp", port: 8080 }) as const);
    const cache = cacheOf({
      services: [limited({ connections: 5 }), two],
      slices: [SLICE, slice({ service: "shop/two", name: "two", ports, endpoints: ["10.244.1.2"] })],
    });
    const renderer = new Renderer(cache, testNodeContext());
    renderer.update(cache.takeDirty());
    const chains = () =>
      [...(renderer.state.families.ip?.table.chains.keys() ?? [])].filter((name) => /limit-\d/.test(name));
    expect(elementsIn(renderer, "client-limits").map(([, verdict]) => verdict)).toEqual(
      Array(3).fill("jump client-limit-5"),
    );
    cache.deleteService(named("shop/two"));
    cache.putService(limited({ connections: 6 }));
    renderer.update(cache.takeDirty());
    expect(chains()).toEqual(["client-limit-6"]);
    expect(elementsIn(renderer, "client-limits")).toHaveLength(1);
  });

  test("follow the ids of service ports that the kernel has", () => {
    const objects = { services: [limited(BOTH), limited(BOTH, "shop/other", "10.96.0.11")], slices: [SLICE] };
    const kernel = renderAll({ services: [limited(BOTH)], slices: [SLICE] });
    const renderer = renderAll({
      ...objects,
      slices: [SLICE, slice({ service: "shop/other", name: "other", endpoints: ["10.244.1.1"] })],
    });
    adoptNumbers(renderer.state, kernel.state.ruleset);
    const ids = elementsIn(renderer, "lists").map(([, id]) => id);
    expect(
      elementsIn(renderer, "client-limits")
        .map(([id]) => id)
        .sort(),
    ).toEqual(ids.sort());
  });
});

describe("the id of a deleted service port with limits", () => {
  test("is not given before its clients are gone, even if it has lost the limits or gains affinity", () => {
    const cache = cacheOf({ services: [limited(BOTH)], slices: [SLICE] });
    const renderer = new Renderer(cache, testNodeContext());
    const sync = () => {
      renderer.update(cache.takeDirty());
      renderer.state.markCommitted();
    };
    sync();
    const idOf = () => Number(elementsIn(renderer, "lists")[0]?.[1]);
    const first = idOf();
    cache.putService(plain);
    sync();
    cache.putService({ ...plain, affinitySeconds: 60 });
    sync();
    cache.putService(plain);
    sync();
    expect(idOf()).not.toBe(first);
    const held = [...(renderer.state.families.ip?.ids.held ?? [])];
    expect(held).toContain(first);
    renderer.state.families.ip?.ids.freeHeld(held);
    cache.putService(service({ name: "shop/next", clusterIPs: ["10.96.0.11"] }));
    cache.putSlice(slice({ service: "shop/next", name: "next", endpoints: ["10.244.1.1"] }));
    sync();
    expect(elementsIn(renderer, "lists").map(([, id]) => Number(id))).toContain(first);
  });
});

describe("a client in the evaluator", () => {
  const renderer = renderAll({ services: [limited(BOTH)], slices: [SLICE] });
  const kinds = (
    limits: Readonly<Record<string, number>>,
    protocol: "tcp" | "udp" = "tcp",
    size?: number,
  ) => {
    const objects = { services: [limited(BOTH)], slices: [SLICE] };
    const { ruleset } =
      size === undefined
        ? renderer.state
        : renderAll(objects, testNodeContext({ settings: { maxLimitedClients: size } })).state;
    const dynamic = Object.entries(limits).map(([key, count]) => {
      const [map = "", ...parts] = key.split(" ");
      return { family: "ip", map, key: parts.join(" . "), value: String(count) } as const;
    });
    const from = { address: "10.244.1.9", at: "pod" } as const;
    const packet = { from, to: "10.96.0.10", port: 80, protocol };
    const host = { localAddresses: new Set<string>() };
    return [...new Set(evaluate(Object.values(ruleset), host, packet, dynamic).map(({ kind }) => kind))];
  };
  const CLIENT = "client-connections 2147483652 100 10.244.1.9";
  const RATE = "client-rates 2147483652 655380 10.244.1.9";

  test.each([
    ["without connections is served", {}, "delivered"],
    ["below the limit is served", { [CLIENT]: 99 }, "delivered"],
    ["at the limit is refused", { [CLIENT]: 100 }, "refused"],
    ["below a burst is served", { [RATE]: 39 }, "delivered"],
    ["beyond a burst is refused", { [RATE]: 40 }, "refused"],
    [
      "is served beside another at the limit",
      { "client-connections 2147483652 100 10.244.1.8": 100 },
      "delivered",
    ],
  ])("%s", (_which, counts, kind) => {
    expect(kinds(counts)).toEqual([kind]);
  });

  test("is served if a set is full", () => {
    expect(kinds({ "client-connections 2147483652 100 10.244.1.8": 100 }, "tcp", 1)).toEqual(["delivered"]);
  });
});

test("chains of service ports are recognised by their names", () => {
  const rate = { amount: 20, per: "minute", burst: 40 } as const;
  for (const limits of [{ connections: 7 }, { rate }, { connections: 7, rate }])
    expect(rules.isChainOfPort?.(chainName(limits))).toBe(true);
  for (const name of [
    "client-limit",
    "client-limit-",
    "client-limit-0",
    "client-limit-7-8",
    "client-limit-7-day-8",
    "client-limit-refusal",
  ])
    expect(rules.isChainOfPort?.(name)).toBe(false);
});

test("beyond the budget of different limits, newer Services are served without, unless they share one", () => {
  const services = [
    limited({ connections: 1 }, "shop/oldest", "10.96.0.11", 1),
    limited({ connections: 2 }, "shop/late", "10.96.0.12", 3),
    limited({ connections: 1 }, "shop/sharing", "10.96.0.13", 4),
    limited({ connections: 3 }, "other/one", "10.96.0.14", 2),
    limited({ connections: 4 }, "third/two", "10.96.0.15", 5),
  ];
  const slices = services.map(({ name }) => slice({ service: name, name, endpoints: ["10.244.1.1"] }));
  const few = { ...rules, budget: { ...(rules.budget as OwnBudget), most: 2 } };
  const renderer = renderAll({ services, slices }, testNodeContext({ features: [few] }));
  expect(elementsIn(renderer, "client-limits")).toHaveLength(3);
  expect(Object.fromEntries(renderer.state.budgets.without("client-limits"))).toEqual({
    "ip shop/late/tcp": expect.stringMatching(
      /^the Services of a namespace can have 1 different client limits/,
    ),
    "ip third/two/tcp": expect.stringMatching(/^all Services together can have 2 different client limits/),
  });
});
