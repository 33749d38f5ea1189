import { describe, expect, test } from "vitest";
import type { Rule } from "../../../src/nft/ast/json.ts";
import { ruleText } from "../../../src/nft/text/rule-text.ts";
import { rebuildTransaction } from "../../../src/nft/transaction.ts";
import { silentFamilies } from "../../../src/ruleset/answer-ping.ts";
import { elementCount } from "../../../src/ruleset/element-count.ts";
import { Renderer } from "../../../src/ruleset/renderer.ts";
import {
  type ContextOptions,
  cacheOf,
  chainNames,
  elementsOf,
  localEndpoint,
  port,
  renderAll,
  type ServiceOptions,
  service,
  slice,
  testNodeContext,
} from "../../support/build.ts";

const ON = testNodeContext({ answerPing: true });
const SHARED = "203.0.113.20";
const WITH_RANGES: ServiceOptions = {
  name: "guarded",
  clusterIPs: ["10.96.0.11"],
  loadBalancerIPs: [SHARED],
  sourceRanges: ["198.51.100.0/24"],
};
const sliceOf = (name: string, endpoints: readonly string[] = ["10.244.2.11"]) =>
  slice({ service: name, endpoints, family: "ip" });

/** A cluster whose Services change. */
function changing(...services: readonly ServiceOptions[]) {
  const cache = cacheOf({
    services: services.map(service),
    slices: services.map(({ name = "web" }) => sliceOf(name)),
  });
  const renderer = new Renderer(cache, ON);
  const update = () => renderer.update(cache.takeDirty());
  update();
  return { cache, renderer, update };
}

const verdicts = (renderer: Renderer) => elementsOf(renderer, "ping-ips").sort();
const rulesOf = (renderer: Renderer, chain = "", family: "ip" | "ip6" = "ip") =>
  (renderer.state.families[family]?.table.chains.get(chain)?.rules ?? []).map((rule) =>
    ruleText(rule as Rule),
  );
const pingChains = (renderer: Renderer) =>
  chainNames(renderer).filter((name) => /^ping-[\da-f]{20}$/.test(name));

describe("the rules that answer pings", () => {
  test("are a map, two chains and the last rule of services, and nothing without the option", () => {
    const parts = (options: ContextOptions) => {
      const { state } = renderAll({}, testNodeContext(options));
      return [...(state.ruleset.ip?.chains.keys() ?? []), ...(state.ruleset.ip?.sets.keys() ?? [])];
    };
    const without = parts({});
    expect(parts({ answerPing: true }).filter((name) => !without.includes(name))).toEqual([
      "answer-ping",
      "answer-ping-inside",
      "ping-ips",
    ]);
    expect(rulesOf(renderAll({}, ON), "services").at(-1)).toBe(
      "icmp type echo-request ip daddr vmap @ping-ips",
    );
    expect(rulesOf(renderAll({}, ON), "services", "ip6").at(-1)).toBe(
      "icmpv6 type echo-request ip6 daddr vmap @ping-ips",
    );
    const off = JSON.stringify(rebuildTransaction(renderAll({ services: [service()] }).state.ruleset));
    expect(off).not.toMatch(/ping|icmp/);
  });

  test("answer by the node's own address, without the mark for masquerading", () => {
    expect(rulesOf(renderAll({}, ON), "answer-ping")).toEqual([
      "meta mark set meta mark & 0xffffbfff dnat to 192.0.2.2",
    ]);
    expect(rulesOf(renderAll({}, ON), "answer-ping", "ip6")).toEqual([
      "meta mark set meta mark & 0xffffbfff dnat to fd00:c0::2",
    ]);
  });

  test("answer nothing in a family of which the node has no address", () => {
    const context = testNodeContext({ answerPing: true, nodeAddress: "" });
    const { state } = renderAll({ services: [service()], slices: [sliceOf("web")] }, context);
    expect(state.ruleset.ip?.chains.get("answer-ping")?.rules).toEqual([]);
    expect(silentFamilies(context, state.ruleset)).toEqual(["ip"]);
    expect(silentFamilies(ON, state.ruleset)).toEqual([]);
  });

  test("count as elements of the Service, one for each address", () => {
    const own = service({ ...WITH_RANGES, externalIPs: ["203.0.113.21"], ports: [port(80), port(81)] });
    const counts = [testNodeContext(), ON].map((context) => elementCount(own, [], context));
    expect((counts[1] ?? 0) - (counts[0] ?? 0)).toBe(3);
  });
});

describe("an address answers pings", () => {
  test("once for all of its ports, as long as one has endpoints", () => {
    const { cache, renderer, update } = changing({ ports: [port(80), port(443, { name: "tls" })] });
    expect(verdicts(renderer)).toEqual(["10.96.0.10: goto answer-ping"]);
    cache.putSlice(sliceOf("web", []));
    update();
    expect(verdicts(renderer)).toEqual([]);
    cache.putSlice(sliceOf("web"));
    update();
    expect(verdicts(renderer)).toEqual(["10.96.0.10: goto answer-ping"]);
  });

  test("for pods and the node without a local endpoint, by external Local policy", () => {
    const { cache, renderer, update } = changing({ externalIPs: [SHARED], external: "Local" });
    expect(verdicts(renderer)).toEqual([
      "10.96.0.10: goto answer-ping",
      `${SHARED}: goto answer-ping-inside`,
    ]);
    cache.putSlice(slice({ endpoints: [localEndpoint("10.244.1.11")] }));
    update();
    expect(verdicts(renderer)).toContain(`${SHARED}: goto answer-ping`);
    expect(rulesOf(renderer, "answer-ping-inside")).toEqual([
      "ip saddr 10.244.0.0/16 goto answer-ping",
      "fib saddr type local goto answer-ping",
    ]);
  });

  test("for all clients if one of its Services has no source ranges, else for those in any ranges", () => {
    const other: ServiceOptions = {
      ...WITH_RANGES,
      name: "other",
      clusterIPs: ["10.96.0.12"],
      ports: [port(81)],
      sourceRanges: ["192.0.2.0/24"],
    };
    const open: ServiceOptions = {
      ...other,
      name: "open",
      clusterIPs: ["10.96.0.13"],
      ports: [port(82)],
      sourceRanges: [],
    };
    const { cache, renderer, update } = changing(WITH_RANGES);
    const [alone = ""] = pingChains(renderer);
    const sets = () =>
      [...(renderer.state.ruleset.ip?.sets.keys() ?? [])].filter((name) => name.startsWith("source"));
    expect(verdicts(renderer)).toContain(`${SHARED}: goto ${alone}`);
    expect(rulesOf(renderer, alone)).toEqual([`ip saddr @${sets()[0]} jump answer-ping`]);
    cache.putService(service(other));
    cache.putSlice(sliceOf("other"));
    update();
    const [both, ...more] = pingChains(renderer);
    expect([both === alone, more]).toEqual([false, []]);
    expect(rulesOf(renderer, both)).toEqual(
      sets()
        .sort()
        .map((set) => `ip saddr @${set} jump answer-ping`),
    );
    cache.putService(service(open));
    cache.putSlice(sliceOf("open"));
    update();
    expect(verdicts(renderer)).toContain(`${SHARED}: goto answer-ping`);
    expect(pingChains(renderer)).toEqual([]);
    for (const name of ["open", "other"] as const) cache.deleteService(service({ name }).name);
    update();
    expect(pingChains(renderer)).toEqual([alone]);
  });

  test("with one chain for all addresses with the same source ranges", () => {
    const twin = {
      ...WITH_RANGES,
      name: "twin",
      clusterIPs: ["10.96.0.14"],
      loadBalancerIPs: ["203.0.113.22"],
    };
    const { cache, renderer, update } = changing(WITH_RANGES, twin);
    expect(pingChains(renderer)).toHaveLength(1);
    cache.deleteService(service(WITH_RANGES).name);
    update();
    expect(pingChains(renderer)).toHaveLength(1);
    cache.deleteService(service(twin).name);
    update();
    expect([pingChains(renderer), verdicts(renderer)]).toEqual([[], []]);
  });

  test("by at most eight lists of source ranges", () => {
    const services = Array.from({ length: 12 }, (_, n) => ({
      ...WITH_RANGES,
      name: `tenant-${n}`,
      clusterIPs: [`10.96.1.${n}`],
      ports: [port(80 + n)],
      sourceRanges: [`198.51.${n}.0/24`],
    }));
    const { renderer } = changing(...services);
    expect(rulesOf(renderer, pingChains(renderer)[0])).toHaveLength(8);
    const reversed = changing(...services.toReversed());
    expect(verdicts(reversed.renderer)).toEqual(verdicts(renderer));
  });
});
