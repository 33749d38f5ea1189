import { describe, expect, test } from "vitest";
import type { Rule } from "../../../src/nft/ast/json.ts";
import { ruleText } from "../../../src/nft/text/rule-text.ts";
import { rebuildTransaction } from "../../../src/nft/transaction.ts";
import { adoptNumbers } from "../../../src/ruleset/adopt-numbers.ts";
import { Renderer } from "../../../src/ruleset/renderer.ts";
import {
  type ContextOptions,
  cacheOf,
  chainNames,
  elementCount,
  elementsOf,
  localEndpoint,
  port,
  renderAll,
  type ServiceOptions,
  service,
  slice,
  testNodeContext,
} from "../../support/build.ts";

const ON = testNodeContext({ settings: { answerPing: true } });
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
  chainNames(renderer).filter((name) => name.startsWith("answer-ping"));

/** The number of the list of source ranges of a Service, as in elements. */
function listOf(renderer: Renderer, name = "guarded"): string {
  const state = renderer.state.families.ip;
  for (const { port: owner, frontends } of state?.allServicePortRules() ?? []) {
    const guarded = frontends.find(({ guard }) => guard !== undefined);
    if (owner.service.name.endsWith(`/${name}`) && guarded !== undefined)
      return state?.sourceRangeListOf(guarded) ?? "no number";
  }
  throw new Error(`no source ranges of ${name}`);
}

/** The lists of source ranges that get an answer at an address, each with its place among all 16. */
const listsAt = (renderer: Renderer, address = SHARED) =>
  Object.fromEntries(
    elementsOf(renderer, "ping-source-range-lists")
      .map((text) => text.split(/ \. |: /))
      .filter(([at]) => at === address)
      .map(([, place, list]) => [place, list]),
  );
const EVERYBODY = String(0x8000_0000);

describe("the rules that answer pings", () => {
  test("are a map, two chains and the last rule of services, and nothing without the option", () => {
    const parts = (options: ContextOptions) => {
      const { state } = renderAll({}, testNodeContext(options));
      return [...(state.ruleset.ip?.chains.keys() ?? []), ...(state.ruleset.ip?.sets.keys() ?? [])];
    };
    const without = parts({});
    expect(parts({ settings: { answerPing: true } }).filter((name) => !without.includes(name))).toEqual([
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
    const context = testNodeContext({ settings: { answerPing: true }, nodeAddress: "" });
    const { state } = renderAll({ services: [service()], slices: [sliceOf("web")] }, context);
    expect(state.ruleset.ip?.chains.get("answer-ping")?.rules).toEqual([]);
  });

  test("count as elements of the Service, one for each address and two more for one with source ranges", () => {
    const own = service({ ...WITH_RANGES, externalIPs: ["203.0.113.21"], ports: [port(80), port(81)] });
    const counts = [testNodeContext(), ON].map((context) => elementCount(own, [], context));
    expect((counts[1] ?? 0) - (counts[0] ?? 0)).toBe(5);
  });

  test("have three more chains and a map while any Service has source ranges, and not without the option", () => {
    const { cache, renderer, update } = changing(WITH_RANGES);
    const inside = ["answer-ping-inside", "answer-ping-inside-check"];
    const all = ["answer-ping", "answer-ping-allowed", "answer-ping-check", ...inside];
    expect(pingChains(renderer)).toEqual(all);
    cache.deleteService(service(WITH_RANGES).name);
    update();
    // The elements of the list are deleted first.
    update();
    expect(pingChains(renderer)).toEqual(["answer-ping", "answer-ping-inside"]);
    expect(() => elementsOf(renderer, "ping-source-range-lists")).toThrow("no set");
    const off = renderAll({ services: [service(WITH_RANGES)], slices: [sliceOf("guarded")] });
    expect(JSON.stringify(rebuildTransaction(off.state.ruleset))).not.toMatch(/ping|icmp/);
  });

  test("look at eight lists of sources from anywhere, then at eight from inside", () => {
    const { renderer } = changing(WITH_RANGES);
    const expected = Array.from({ length: 16 }, (_, place) => {
      const offset = place === 0 ? "" : ` offset ${place}`;
      const check = place < 8 ? "answer-ping-check" : "answer-ping-inside-check";
      return `meta priority set ip daddr . numgen random mod 1${offset} map @ping-source-range-lists jump ${check}`;
    });
    expect(rulesOf(renderer, "answer-ping-allowed")).toEqual(expected);
    for (const [check, target] of [
      ["answer-ping-check", "answer-ping"],
      ["answer-ping-inside-check", "answer-ping-inside"],
    ] as const) {
      const [everybody, ...ranges] = rulesOf(renderer, check);
      expect(everybody).toBe(`meta priority 8000:0 goto ${target}`);
      expect(ranges.length).toBeGreaterThan(8);
      for (const text of ranges) expect(text.endsWith(` @source-ranges goto ${target}`)).toBe(true);
    }
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
    const alone = { 0: listOf(renderer) };
    expect(verdicts(renderer)).toContain(`${SHARED}: goto answer-ping-allowed`);
    expect(listsAt(renderer)).toEqual(alone);
    cache.putService(service(other));
    cache.putSlice(sliceOf("other"));
    update();
    const lists = listsAt(renderer);
    expect(Object.keys(lists)).toEqual(["0", "1"]);
    expect(new Set(Object.values(lists))).toEqual(new Set([listOf(renderer), listOf(renderer, "other")]));
    expect(new Set(Object.values(lists)).size).toBe(2);
    cache.putService(service(open));
    cache.putSlice(sliceOf("open"));
    update();
    expect(verdicts(renderer)).toContain(`${SHARED}: goto answer-ping`);
    expect(listsAt(renderer)).toEqual({});
    for (const name of ["open", "other"] as const) cache.deleteService(service({ name }).name);
    update();
    expect(verdicts(renderer)).toContain(`${SHARED}: goto answer-ping-allowed`);
    expect(listsAt(renderer)).toEqual(alone);
  });

  test("for other source ranges after a Service changed them", () => {
    const { cache, renderer, update } = changing(WITH_RANGES);
    const before = listOf(renderer);
    cache.putService(service({ ...WITH_RANGES, sourceRanges: ["192.0.2.0/24"] }));
    update();
    expect(listOf(renderer)).not.toBe(before);
    expect(listsAt(renderer)).toEqual({ 0: listOf(renderer) });
  });

  test("for pods and the node in source ranges, by external Local policy without a local endpoint", () => {
    const { cache, renderer, update } = changing({ ...WITH_RANGES, external: "Local" });
    expect(verdicts(renderer)).toContain(`${SHARED}: goto answer-ping-allowed`);
    expect(listsAt(renderer)).toEqual({ 8: listOf(renderer) });
    cache.putSlice(slice({ service: "guarded", endpoints: [localEndpoint("10.244.1.11")] }));
    update();
    expect(listsAt(renderer)).toEqual({ 0: listOf(renderer) });
  });

  test("for everybody inside if a Service without source ranges serves only those, and for others in ranges", () => {
    const inside: ServiceOptions = {
      name: "inside",
      clusterIPs: ["10.96.0.15"],
      externalIPs: [SHARED],
      external: "Local",
      ports: [port(81)],
    };
    const { cache, renderer, update } = changing(WITH_RANGES, inside);
    expect(verdicts(renderer)).toContain(`${SHARED}: goto answer-ping-allowed`);
    expect(listsAt(renderer)).toEqual({ 0: listOf(renderer), 8: EVERYBODY });
    cache.deleteService(service(WITH_RANGES).name);
    update();
    expect(verdicts(renderer)).toContain(`${SHARED}: goto answer-ping-inside`);
  });

  test("by one list of source ranges for all addresses that share it", () => {
    const twin = {
      ...WITH_RANGES,
      name: "twin",
      clusterIPs: ["10.96.0.14"],
      loadBalancerIPs: ["203.0.113.22"],
    };
    const { cache, renderer, update } = changing(WITH_RANGES, twin);
    const list = listOf(renderer);
    expect([listsAt(renderer), listsAt(renderer, "203.0.113.22")]).toEqual([{ 0: list }, { 0: list }]);
    cache.deleteService(service(WITH_RANGES).name);
    update();
    expect([listsAt(renderer), listsAt(renderer, "203.0.113.22")]).toEqual([{}, { 0: list }]);
    cache.deleteService(service(twin).name);
    update();
    expect(verdicts(renderer)).toEqual([]);
  });

  test("by at most eight lists of source ranges, whatever the order of Services", () => {
    const services = Array.from({ length: 12 }, (_, n) => ({
      ...WITH_RANGES,
      name: `tenant-${n}`,
      clusterIPs: [`10.96.1.${n}`],
      ports: [port(80 + n)],
      sourceRanges: [`198.51.${n}.0/24`],
    }));
    const tenantsOf = (order: readonly ServiceOptions[]) => {
      const { cache, renderer, update } = changing();
      for (const options of order) {
        cache.putService(service(options));
        cache.putSlice(sliceOf(options.name ?? ""));
        update();
      }
      const lists = listsAt(renderer);
      expect(Object.keys(lists)).toEqual(["0", "1", "2", "3", "4", "5", "6", "7"]);
      return Object.values(lists).map((list) =>
        services.findIndex(({ name }) => listOf(renderer, name) === list),
      );
    };
    const tenants = tenantsOf(services);
    expect(new Set(tenants).size).toBe(8);
    expect(tenants).not.toContain(-1);
    expect(tenantsOf(services.toReversed())).toEqual(tenants);
  });

  test("by the numbers that the kernel has for lists of source ranges, once they are adopted", () => {
    const other = { ...WITH_RANGES, name: "a", clusterIPs: ["10.96.0.16"], sourceRanges: ["192.0.2.0/24"] };
    const kernel = changing({ ...other, loadBalancerIPs: ["203.0.113.23"] }, WITH_RANGES).renderer;
    const { renderer } = changing(WITH_RANGES);
    expect(listOf(renderer)).not.toBe(listOf(kernel));
    adoptNumbers(renderer.state, kernel.state.ruleset);
    expect(listOf(renderer)).toBe(listOf(kernel));
    expect(listsAt(renderer)).toEqual({ 0: listOf(kernel) });
  });
});
