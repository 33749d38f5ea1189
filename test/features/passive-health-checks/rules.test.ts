import { describe, expect, test } from "vitest";
import { DEFAULT_PASSIVE_HEALTH_CHECK as ON } from "../../../src/features/passive-health-checks/check.ts";
import { rules } from "../../../src/features/passive-health-checks/rules.ts";
import type { Rule } from "../../../src/nft/ast/json.ts";
import { ruleText } from "../../../src/nft/text/rule-text.ts";
import { rebuildTransaction } from "../../../src/nft/transaction.ts";
import type { OwnBudget } from "../../../src/ruleset/node-context.ts";
import { Renderer } from "../../../src/ruleset/renderer.ts";
import {
  cacheOf,
  elementsOf,
  named,
  port,
  renderAll,
  service,
  slice,
  testNodeContext,
} from "../../support/build.ts";

const SLICE = slice({ service: "shop/web", endpoints: ["10.244.1.1", "10.244.2.1"] });
const plain = service({ name: "shop/web" });
const watched = service({ name: "shop/web", passiveHealthCheck: ON });
const sorted = (renderer: Renderer) =>
  JSON.stringify(
    [...(renderer.state.families.ip?.table.sets.get("endpoints")?.elements.values() ?? [])].sort(),
  );
const text = (renderer: Renderer) => JSON.stringify(rebuildTransaction(renderer.state.ruleset));

describe("the rules for watched endpoints", () => {
  test("are there only while an endpoint is watched, and leave the bytes of the same objects without them", () => {
    const cache = cacheOf({ services: [watched], slices: [SLICE] });
    const renderer = new Renderer(cache, testNodeContext());
    renderer.update(cache.takeDirty());
    expect(text(renderer)).toMatch(/endpoint-attempts.*count-answers/);
    cache.putService(plain);
    renderer.update(cache.takeDirty());
    expect(text(renderer)).toBe(text(renderAll({ services: [plain], slices: [SLICE] })));
    expect(text(renderer)).not.toMatch(/endpoint-(?:attempts|answers|resets)|count-/);
  });

  test("count at the endpoints' addresses, and add two rules to each filter chain", () => {
    const { state } = renderAll({ services: [watched], slices: [SLICE] });
    const rulesOf = (chain: string) =>
      (state.families.ip?.table.chains.get(chain)?.rules ?? []).map((rule) => ruleText(rule as Rule));
    expect(rulesOf("filter-forward").slice(0, 5)).toEqual([
      "meta l4proto tcp ct status & assured | dnat == dnat jump count-answers",
      "ct state != new accept",
      expect.stringMatching(/^meta priority >=/),
      "ct status dnat jump count-attempts",
      "ct status dnat accept",
    ]);
    expect(rulesOf("filter-input")[0]).toBe(rulesOf("filter-forward")[0]);
    expect(rulesOf("count-attempts")).toEqual([
      "ct status confirmed return",
      "ip daddr . tcp dport @endpoint-attempts",
    ]);
    expect(rulesOf("count-answers")).toEqual([
      "ct direction original return",
      "tcp flags syn ip saddr . tcp sport @endpoint-answers",
      "tcp flags rst ip saddr . tcp sport @endpoint-resets",
    ]);
  });

  test("have an element for each TCP endpoint of all Services that have it, until the last one goes", () => {
    const other = service({ name: "shop/other", clusterIPs: ["10.96.0.11"], passiveHealthCheck: ON });
    const udp = service({
      name: "shop/dns",
      clusterIPs: ["10.96.0.12"],
      ports: [port(53, { protocol: "udp" })],
      passiveHealthCheck: ON,
    });
    const cache = cacheOf({
      services: [watched, other, udp],
      slices: [SLICE, slice({ service: "shop/other", name: "other", endpoints: ["10.244.1.1"] })],
    });
    const renderer = new Renderer(cache, testNodeContext());
    renderer.update(cache.takeDirty());
    expect(elementsOf(renderer, "endpoint-answers")).toHaveLength(2);
    cache.deleteService(named("shop/web"));
    renderer.update(cache.takeDirty());
    expect(elementsOf(renderer, "endpoint-answers")).toHaveLength(1);
  });
});

test("an ejected endpoint stays watched and leaves the lists of watched Services alone", () => {
  const other = service({ name: "shop/other", clusterIPs: ["10.96.0.11"] });
  const cache = cacheOf({
    services: [watched, other],
    slices: [SLICE, slice({ service: "shop/other", name: "other", endpoints: ["10.244.1.1", "10.244.2.1"] })],
  });
  const renderer = new Renderer(cache, testNodeContext());
  renderer.update(cache.takeDirty());
  const before = sorted(renderer);
  cache.setEjected("ip", "10.244.1.1 . 8080", true, [named("shop/web")]);
  renderer.update(cache.takeDirty());
  expect(elementsOf(renderer, "endpoints")).toHaveLength(3);
  expect(elementsOf(renderer, "endpoint-attempts")).toHaveLength(2);
  cache.setEjected("ip", "10.244.1.1 . 8080", false, [named("shop/web")]);
  renderer.update(cache.takeDirty());
  expect(sorted(renderer)).toBe(before);
});

test("beyond the budget of watched endpoints the newest Service is served without", () => {
  const newer = service({
    name: "shop/newer",
    clusterIPs: ["10.96.0.11"],
    createdAt: 2000,
    passiveHealthCheck: ON,
  });
  const objects = {
    services: [newer, watched],
    slices: [SLICE, slice({ service: "shop/newer", name: "newer", endpoints: ["10.244.1.3", "10.244.1.4"] })],
  };
  const renderer = renderAll(
    objects,
    testNodeContext({ features: [{ ...rules, budget: { ...(rules.budget as OwnBudget), most: 6 } }] }),
  );
  expect(elementsOf(renderer, "endpoint-attempts")).toHaveLength(2);
  expect([...renderer.state.budgets.without("passive-health-checks").values()]).toEqual([
    "the Services of a namespace can have 3 watched endpoints in a family, and this one has 2, 1 more than older ones leave",
  ]);
});
