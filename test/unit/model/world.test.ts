import { describe, expect, test } from "vitest";
import { World } from "../../../src/model/world.ts";
import { HERE, named, node, service, serviceCIDR, slice } from "../../support/build.ts";

function quiet(): World {
  const world = new World(HERE.name);
  world.takeChanges();
  return world;
}

describe("a world", () => {
  test("marks a Service for itself and for its slices", () => {
    const world = quiet();
    world.putService(service({ name: "a" }));
    world.putSlice(slice({ service: "b", endpoints: ["10.0.0.1"] }));
    expect([...world.takeChanges()]).toEqual(["default/a", "default/b"]);
    world.deleteService(named("a"));
    world.deleteSlice(slice({ service: "b", family: "ip" }));
    expect([...world.takeChanges()]).toEqual(["default/a", "default/b"]);
    expect(world.slices(named("b"))).toEqual([]);
  });

  test("marks nothing for what it never had", () => {
    const world = quiet();
    world.deleteService(named("a"));
    world.deleteSlice(slice({ service: "b", family: "ip" }));
    world.deleteServiceCIDR("none");
    expect(world.takeChanges().size).toBe(0);
  });

  test("marks both Services when a slice moves from one to the other", () => {
    const world = quiet();
    const before = slice({ name: "s", service: "a", endpoints: ["10.0.0.1"] });
    const after = slice({ name: "s", service: "b", endpoints: ["10.0.0.1"] });
    world.putSlice(before);
    world.takeChanges();
    world.putSlice(after, before);
    expect([...world.takeChanges()].sort()).toEqual(["default/a", "default/b"]);
    expect([world.slices(named("a")), world.slices(named("b"))]).toEqual([[], [after]]);
  });

  test("keeps slices of a Service that goes and comes back", () => {
    const world = quiet();
    world.putService(service());
    world.putSlice(slice({ endpoints: ["10.0.0.1"] }));
    world.deleteService(named("web"));
    expect(world.slices(named("web"))).toHaveLength(1);
  });

  test("minds its own node only", () => {
    const world = quiet();
    world.putNode(node({ name: "node-2" }));
    expect(world.node.zone).toBe("");
    world.putNode(node());
    expect(world.node.zone).toBe("zone-a");
  });

  test("sorts what it lists", () => {
    const world = quiet();
    for (const name of ["b", "a"]) {
      world.putService(service({ name }));
      world.putServiceCIDR(serviceCIDR(name, ["10.96.0.0/16"]));
    }
    expect(world.serviceNames()).toEqual(["default/a", "default/b"]);
    expect(world.serviceCIDRs().map(({ name }) => name)).toEqual(["a", "b"]);
  });
});
