import { describe, expect, test } from "vitest";
import type { Service } from "../../../src/model/service.ts";
import { Renderer } from "../../../src/ruleset/renderer.ts";
import {
  cacheOf,
  chainNames,
  elementsOf,
  named,
  port,
  renderAll,
  type ServiceOptions,
  service,
  slice,
  testNodeContext,
} from "../../support/build.ts";

const CONTESTED = "203.0.113.1";

function candidate(name: string, createdAt: number, options: ServiceOptions = {}): Service {
  return service({ name, createdAt, clusterIPs: [`10.96.1.${createdAt}`], externalIPs: [CONTESTED], ...options });
}

/** One endpoint for the first, two for the second, and so on: the balancer shows who has the frontend. */
function slicesOf(...names: string[]) {
  return names.map((name, index) =>
    slice({
      service: name,
      endpoints: Array.from({ length: index + 1 }, (_, i) => `10.244.2.${10 * (index + 1) + i}`),
    }),
  );
}

const external = (renderer: Renderer) => elementsOf(renderer, "service-ips").filter((text) => text.startsWith("203."));

test("the chain of source ranges stays while one of a Service's load-balancer addresses is left", () => {
  const cache = cacheOf({ slices: slicesOf("web") });
  const renderer = new Renderer(cache, testNodeContext());
  const guarded = (...addresses: readonly string[]) => {
    cache.putService(service({ name: "web", loadBalancerIPs: addresses, sourceRanges: ["192.0.2.0/24"] }));
    renderer.update(cache.takeDirty());
    const chains = [...(renderer.state.families.ip?.table.chains.keys() ?? [])];
    return chains.filter((name) => name.startsWith("firewall-default/"));
  };
  expect(guarded("203.0.113.1", "203.0.113.2")).toEqual(["firewall-default/web/tcp/"]);
  expect(guarded("203.0.113.2")).toEqual(["firewall-default/web/tcp/"]);
  expect(guarded()).toEqual([]);
});

describe("two Services that want one frontend", () => {
  const objects = { services: [candidate("old", 1), candidate("new", 2)], slices: slicesOf("old", "new") };

  test.each([
    ["the older first", objects],
    ["the newer first", { ...objects, services: objects.services.toReversed() }],
  ])("give it to the older one, and the newer one is reported (%s)", (_, given) => {
    const renderer = renderAll(given);
    expect(external(renderer)).toEqual(["203.0.113.1 . tcp . 80: goto balance-1"]);
    expect(
      renderer.state.conflicts().map(({ family, frontend, winner, losers }) => ({
        family,
        frontend,
        winner: winner.name,
        losers: losers.map(({ name }) => name),
      })),
    ).toEqual([
      { family: "ip", frontend: "203.0.113.1 . tcp . 80", winner: "default/old:/tcp", losers: ["default/new:/tcp"] },
    ]);
  });

  test.each([
    ["the older first", ["thief", "own"]],
    ["the newer first", ["own", "thief"]],
  ])("give a cluster IP to its own Service, also when an older one names it as an external IP (%s)", (_, names) => {
    const cache = cacheOf({ slices: slicesOf("own", "thief") });
    const renderer = new Renderer(cache, testNodeContext());
    for (const name of names) {
      cache.putService(
        name === "own"
          ? service({ name, createdAt: 2, clusterIPs: ["10.96.1.9"] })
          : service({ name, createdAt: 1, clusterIPs: ["10.96.1.8"], externalIPs: ["10.96.1.9"] }),
      );
      renderer.update(cache.takeDirty());
    }
    const own = (set: string) => elementsOf(renderer, set).filter((text) => text.startsWith("10.96.1.9 "));
    expect(own("service-ips")).toEqual(["10.96.1.9 . tcp . 80: goto balance-1"]);
    expect(own("external-ips")).toEqual([]);
    expect(renderer.state.conflicts()).toMatchObject([
      { winner: { name: "default/own:/tcp" }, losers: [{ name: "default/thief:/tcp" }] },
    ]);
  });

  test("leave nothing of the loser, except for its own cluster IP", () => {
    const renderer = renderAll(objects);
    const endpoints = elementsOf(renderer, "endpoints");
    expect(endpoints.filter((text) => text.startsWith("203."))).toEqual([
      "203.0.113.1 . tcp . 80 . 2147483648: 10.244.2.10 . 8080",
    ]);
    expect(endpoints.filter((text) => text.startsWith("10.96.1.2 "))).toHaveLength(2);
  });

  test("hand it to the loser when the winner goes, and back when it returns", () => {
    const cache = cacheOf(objects);
    const renderer = new Renderer(cache, testNodeContext());
    renderer.update(cache.takeDirty());
    cache.deleteService(named("old"));
    renderer.update(cache.takeDirty());
    expect(external(renderer)).toEqual(["203.0.113.1 . tcp . 80: goto balance-2"]);
    expect(renderer.state.conflicts()).toEqual([]);
    cache.putService(candidate("old", 1));
    renderer.update(cache.takeDirty());
    expect(external(renderer)).toEqual(["203.0.113.1 . tcp . 80: goto balance-1"]);
  });

  test("hand it to the loser when the winner no longer wants it", () => {
    const cache = cacheOf(objects);
    const renderer = new Renderer(cache, testNodeContext());
    renderer.update(cache.takeDirty());
    cache.putService(candidate("old", 1, { externalIPs: [] }));
    renderer.update(cache.takeDirty());
    expect(external(renderer)).toEqual(["203.0.113.1 . tcp . 80: goto balance-2"]);
  });

  test("are in no conflict over other ports and protocols of one address", () => {
    const services = [
      candidate("a", 1),
      candidate("b", 2, { ports: [port(81)] }),
      candidate("c", 3, { ports: [port(80, { protocol: "udp" })] }),
    ];
    expect(renderAll({ services }).state.conflicts()).toEqual([]);
  });

  test("can be in conflict over a NodePort like over an address", () => {
    const services = ["a", "b"].map((name, index) =>
      service({ name, createdAt: index, clusterIPs: [`10.96.1.${index}`], ports: [port(80, { nodePort: 30080 })] }),
    );
    const renderer = renderAll({ services, slices: slicesOf("a", "b") });
    expect(elementsOf(renderer, "service-nodeports")).toEqual(["tcp . 30080: goto nodeport-balance-1"]);
    expect(renderer.state.conflicts().map(({ frontend }) => frontend)).toEqual(["tcp . 30080"]);
  });
});

test("three Services that want one frontend are listed in the order in which they take over", () => {
  const cache = cacheOf({
    services: [candidate("c", 3), candidate("a", 1), candidate("b", 2)],
    slices: slicesOf("a", "b", "c"),
  });
  const renderer = new Renderer(cache, testNodeContext());
  renderer.update(cache.takeDirty());
  const [conflict] = renderer.state.conflicts();
  expect(conflict?.losers.map(({ name }) => name)).toEqual(["default/b:/tcp", "default/c:/tcp"]);
  cache.deleteService(named("b"));
  renderer.update(cache.takeDirty());
  expect(external(renderer)).toEqual(["203.0.113.1 . tcp . 80: goto balance-1"]);
  cache.deleteService(named("a"));
  renderer.update(cache.takeDirty());
  expect(external(renderer)).toEqual(["203.0.113.1 . tcp . 80: goto balance-3"]);
  cache.deleteService(named("c"));
  renderer.update(cache.takeDirty());
  expect(external(renderer)).toEqual([]);
});

test("the loser of a conflict has neither firewall nor balancer chains", () => {
  const guarded = candidate("new", 2, {
    externalIPs: [],
    loadBalancerIPs: [CONTESTED],
    sourceRanges: ["192.0.2.0/24"],
    affinitySeconds: 600,
    internal: "Local",
  });
  const slices = slicesOf("old", "new");
  const alone = renderAll({ services: [guarded], slices });
  const added = ["affinity-2-600", "firewall-default/new/tcp/"];
  expect(chainNames(alone)).toEqual(expect.arrayContaining(added));
  expect(elementsOf(alone, "firewall-ips")).toEqual(["203.0.113.1 . tcp . 80: goto firewall-default/new/tcp/"]);
  const beside = renderAll({ services: [candidate("old", 1), guarded], slices });
  expect(chainNames(beside).filter((name) => added.includes(name))).toEqual([]);
  expect(elementsOf(beside, "firewall-ips")).toEqual([]);
});

test("an excluded service port is no candidate for a frontend", () => {
  const objects = { services: [candidate("old", 1), candidate("new", 2)], slices: slicesOf("old", "new") };
  const all = renderAll(objects);
  const winner = all.state.conflicts()[0]?.winner.key;
  const renderer = renderAll(objects, testNodeContext(), new Set(winner === undefined ? [] : [winner]));
  expect(external(renderer)).toEqual(["203.0.113.1 . tcp . 80: goto balance-2"]);
});
