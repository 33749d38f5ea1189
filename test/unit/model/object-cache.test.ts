import { describe, expect, test } from "vitest";
import { ObjectCache } from "../../../src/model/object-cache.ts";
import { HERE, named, node, service, serviceCIDR, slice } from "../../support/build.ts";

function quiet(): ObjectCache {
  const cache = new ObjectCache(HERE.name);
  cache.takeDirty();
  return cache;
}

describe("the object cache", () => {
  test("marks a Service dirty for itself and for its slices", () => {
    const cache = quiet();
    cache.putService(service({ name: "a" }));
    cache.putSlice(slice({ service: "b", endpoints: ["10.0.0.1"] }));
    expect([...cache.takeDirty()]).toEqual(["default/a", "default/b"]);
    cache.deleteService(named("a"));
    cache.deleteSlice(slice({ service: "b", family: "ip" }));
    expect([...cache.takeDirty()]).toEqual(["default/a", "default/b"]);
    expect(cache.slices(named("b"))).toEqual([]);
  });

  test("has no external IPs without the feature gate AllowServiceExternalIPs", () => {
    const cache = new ObjectCache(HERE.name, { serviceExternalIPs: false });
    cache.putService(service({ externalIPs: ["192.0.2.7"] }));
    const [name] = cache.serviceNames();
    expect(name && cache.service(name)?.externalIPs).toEqual({ ip: [], ip6: [] });
  });

  test("marks no Service dirty when an unknown object is deleted", () => {
    const cache = quiet();
    cache.deleteService(named("a"));
    cache.deleteSlice(slice({ service: "b", family: "ip" }));
    cache.deleteServiceCIDR("none");
    expect(cache.takeDirty().size).toBe(0);
  });

  test("marks both Services dirty when a slice moves from one to the other", () => {
    const cache = quiet();
    const before = slice({ name: "s", service: "a", endpoints: ["10.0.0.1"] });
    const after = slice({ name: "s", service: "b", endpoints: ["10.0.0.1"] });
    cache.putSlice(before);
    cache.takeDirty();
    cache.putSlice(after, before);
    expect([...cache.takeDirty()].sort()).toEqual(["default/a", "default/b"]);
    expect([cache.slices(named("a")), cache.slices(named("b"))]).toEqual([[], [after]]);
  });

  test("keeps each of a hundred slices of a Service once, and none that was deleted", () => {
    const cache = quiet();
    const slices = Array.from({ length: 100 }, (_, i) =>
      slice({ name: `web-${i}`, endpoints: [`10.0.0.${i}`] }),
    );
    for (const each of [...slices, ...slices]) cache.putSlice(each);
    expect(cache.slices(named("web"))).toHaveLength(100);
    expect(cache.allSlices()).toHaveLength(100);
    expect(cache.sliceCount).toBe(100);
    cache.takeDirty();
    for (const each of slices) cache.deleteSlice(each);
    expect(cache.slices(named("web"))).toEqual([]);
    expect([...cache.takeDirty()]).toEqual(["default/web"]);
    cache.deleteSlice(slices[0] ?? slice());
    expect(cache.dirty.size).toBe(0);
  });

  test("keeps the slices of a Service that is deleted", () => {
    const cache = quiet();
    cache.putService(service());
    cache.putSlice(slice({ endpoints: ["10.0.0.1"] }));
    cache.deleteService(named("web"));
    expect(cache.slices(named("web"))).toHaveLength(1);
  });

  test("stores only its own Node", () => {
    const cache = quiet();
    cache.putNode(node({ name: "node-2" }));
    expect(cache.node.zone).toBe("");
    cache.putNode(node());
    expect(cache.node.zone).toBe("zone-a");
  });

  test("keeps what its Node had and lacks now, until the Node has it again", () => {
    const cache = quiet();
    const whole = node({
      zone: "zone-a",
      addresses: { ip: "192.0.2.2", ip6: "fd00:c0::2" },
      podCIDRs: { ip: ["10.244.1.0/24"], ip6: [] },
    });
    expect(cache.putNode(whole)).toEqual([]);
    const bare = node({ zone: "", addresses: { ip: "", ip6: "" }, podCIDRs: { ip: [], ip6: [] } });
    expect(cache.putNode(bare)).toEqual(["addresses", "podCIDRs", "zone"]);
    expect(cache.node).toEqual({ ...bare, ...whole });
    const other = {
      zone: "zone-b",
      addresses: { ip: "", ip6: "fd00:c0::3" },
      podCIDRs: { ip: [], ip6: ["fd00:1::/64"] },
    };
    expect(cache.putNode(node(other))).toEqual(["addresses"]);
    expect(cache.node).toMatchObject({ ...other, addresses: { ip: "192.0.2.2", ip6: "fd00:c0::3" } });
    expect(cache.putNode(whole)).toEqual([]);
    expect(cache.node).toEqual(whole);
  });

  test("has nothing to keep for a Node that never had more", () => {
    const cache = quiet();
    const bare = node({ zone: "", addresses: { ip: "", ip6: "" }, podCIDRs: { ip: [], ip6: [] } });
    expect([cache.putNode(bare), cache.putNode(bare)]).toEqual([[], []]);
    expect(cache.putNode(node({ name: "node-2" }))).toBeUndefined();
  });

  test("lists names in their order", () => {
    const cache = quiet();
    for (const name of ["b", "a"]) {
      cache.putService(service({ name }));
      cache.putServiceCIDR(serviceCIDR(name, ["10.96.0.0/16"]));
    }
    expect(cache.serviceNames()).toEqual(["default/a", "default/b"]);
    expect(cache.serviceCIDRs().map(({ name }) => name)).toEqual(["a", "b"]);
  });

  test("tells observers of each change of a Service or slice, with what was there before", () => {
    const cache = quiet();
    const seen: unknown[] = [];
    const note = (...change: readonly unknown[]) => seen.push(change);
    cache.observe({ service: note, slice: note });
    const [first, second] = [service(), service({ affinitySeconds: 60 })];
    cache.putService(first);
    cache.putService(second);
    cache.deleteService(first.name);
    cache.deleteService(first.name);
    expect(seen.splice(0)).toEqual([
      [undefined, first],
      [first, second],
      [second, undefined],
    ]);
    const [here, there] = [slice({ endpoints: ["10.0.0.1"] }), slice({ endpoints: ["10.0.0.2"] })];
    const moved = { ...there, service: named("other") };
    cache.putSlice(here);
    cache.putSlice(there, here);
    cache.putSlice(moved, there);
    cache.deleteSlice(there);
    cache.deleteSlice(moved);
    expect(seen).toEqual([
      [undefined, here],
      [here, there],
      [there, undefined],
      [undefined, moved],
      [moved, undefined],
    ]);
  });
});
