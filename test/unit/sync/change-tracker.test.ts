import { describe, expect, test } from "vitest";
import { RESOURCE_NAMES } from "../../../src/kube/source.ts";
import { ObjectCache } from "../../../src/model/object-cache.ts";
import { type ChangeTimes, ChangeTracker } from "../../../src/sync/change-tracker.ts";
import { named, node, service, serviceCIDR, slice } from "../../support/build.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { memoryLogger } from "../../support/memory-logger.ts";

function setUp({ synced = true, awaitsPodCIDRs = false } = {}) {
  const cache = new ObjectCache("node-1");
  const logger = memoryLogger();
  const clock = new ManualClock(42);
  let changes = 0;
  const tracker = new ChangeTracker({
    cache,
    clock,
    logger,
    onChange: () => changes++,
    awaitsPodCIDRs,
  });
  const handlers = tracker.handlers();
  if (synced) for (const name of RESOURCE_NAMES) handlers[name].onSynced();
  changes = 0;
  return { cache, clock, logger, tracker, handlers, changes: () => changes };
}

const triggersOf = (times: readonly ChangeTimes[]) => times.flatMap(({ trigger }) => trigger?.at ?? []);

describe("ChangeTracker", () => {
  test("announces no change before every resource has been listed", () => {
    const { tracker, handlers, changes } = setUp({ synced: false });
    handlers.services.onUpsert("default/web", service(), undefined);
    for (const [index, name] of RESOURCE_NAMES.entries()) {
      expect([tracker.waitingFor, changes()]).toEqual([RESOURCE_NAMES.slice(index), 0]);
      handlers[name].onSynced();
    }
    expect([tracker.waitingFor, changes()]).toEqual([[], 1]);
    handlers.services.onSynced();
    expect(changes(), "a later list is no change by itself").toBe(1);
  });

  test("adds every kind of object to the cache, and removes it", () => {
    const { cache, handlers, changes } = setUp();
    const [web, endpoints, cidr] = [
      service(),
      slice({ endpoints: ["10.244.2.11"] }),
      serviceCIDR("a", ["10.96.0.0/16"]),
    ];
    handlers.services.onUpsert("default/web", web, undefined);
    handlers.endpointslices.onUpsert("default/web-ip", endpoints, undefined);
    handlers.servicecidrs.onUpsert("a", cidr, undefined);
    handlers.nodes.onUpsert("node-1", node(), undefined);
    expect([cache.service(web.name), cache.slices(web.name), cache.serviceCIDRs()]).toEqual([
      web,
      [endpoints],
      [cidr],
    ]);
    expect([cache.node.zone, changes()]).toEqual(["zone-a", 4]);
    handlers.services.onDelete("default/web", web);
    handlers.endpointslices.onDelete("default/web-ip", endpoints);
    handlers.servicecidrs.onDelete("a", cidr);
    expect([cache.service(web.name), cache.slices(web.name), cache.serviceCIDRs()]).toEqual([
      undefined,
      [],
      [],
    ]);
  });

  test("keeps the data of this host when its Node is deleted", () => {
    const { cache, handlers } = setUp();
    handlers.nodes.onUpsert("node-1", node(), undefined);
    handlers.nodes.onDelete("node-1", node());
    expect(cache.node.zone).toBe("zone-a");
  });

  test("warns once while our Node lacks what it had, and says when it is complete again", () => {
    const { cache, handlers, logger, tracker } = setUp();
    const lines = () =>
      logger.lines.splice(0).map(({ level, message, fields }) => [level, message, fields.lacks]);
    const whole = node({ addresses: { ip: "192.0.2.2", ip6: "" } });
    handlers.nodes.onUpsert("node-1", whole, undefined);
    lines();
    const again = node({ addresses: { ip: "", ip6: "" } });
    handlers.nodes.onDelete("node-1", node());
    for (const one of [again, again, node({ name: "node-2" })])
      handlers.nodes.onUpsert(one.name, one, undefined);
    expect(lines()).toEqual([
      ["warn", "our Node lacks what it had: the last known values are used", "addresses"],
    ]);
    expect(cache.node.addresses).toEqual(whole.addresses);
    expect(tracker.nodeLacks).toEqual(["addresses"]);
    handlers.nodes.onUpsert("node-1", whole, undefined);
    expect(lines()).toEqual([["info", "our Node is complete again", undefined]]);
    expect(tracker.nodeLacks).toEqual([]);
  });

  test("counts changes until a sync has brought them to the kernel", () => {
    const { tracker, handlers } = setUp();
    handlers.services.onUpsert("default/web", service(), undefined);
    handlers.services.onDelete("default/web", service());
    handlers.endpointslices.onUpsert("default/web-ip", slice({ family: "ip" }), undefined);
    expect([tracker.serviceChanges, tracker.endpointChanges]).toEqual([
      { total: 2, unsynced: 2 },
      { total: 1, unsynced: 1 },
    ]);
    tracker.take();
    handlers.services.onUpsert("default/web", service(), undefined);
    const both = tracker.take();
    handlers.endpointslices.onUpsert("default/web-ip", slice({ family: "ip" }), undefined);
    tracker.synced(both, new Set());
    expect(
      [tracker.serviceChanges, tracker.endpointChanges],
      "the first sync failed, the second had its changes too",
    ).toEqual([
      { total: 3, unsynced: 0 },
      { total: 2, unsynced: 1 },
    ]);
  });

  test("hands over changes and their trigger times once, and again after a failed sync", () => {
    const { tracker, handlers } = setUp();
    const at = (time: number) => ({ ...slice({ family: "ip" }), lastChangeTriggerTime: time });
    handlers.endpointslices.onUpsert("default/web-ip", at(0), undefined);
    handlers.endpointslices.onUpsert("default/web-ip", at(5), at(0));
    handlers.endpointslices.onUpsert("default/web-ip", at(5), at(5));
    const taken = tracker.take();
    expect(taken).toEqual({
      services: new Set(["default/web"]),
      times: [undefined, { family: "ip", at: 5 - 42 }, undefined].map((trigger) => ({
        service: "default/web",
        receivedAt: 0,
        trigger,
      })),
      counts: { services: 0, endpoints: 3 },
    });
    tracker.synced(taken, new Set());
    const counts = { services: 0, endpoints: 0 };
    expect(tracker.take()).toEqual({ services: new Set(), times: [], counts });
    handlers.endpointslices.onUpsert("default/web-ip", at(7), at(5));
    tracker.putBack(taken.times);
    const again = tracker.take().times;
    expect(triggersOf(again)).toEqual([5 - 42, 7 - 42]);
    expect(again).toHaveLength(4);
  });

  test("keeps the times of Services that wait for a later sync, and counts all changes until nothing waits", () => {
    const { tracker, handlers } = setUp();
    const at = (name: string) => ({ ...slice({ service: name, family: "ip" }), lastChangeTriggerTime: 5 });
    for (const name of ["large", "small"])
      handlers.endpointslices.onUpsert(`default/${name}`, at(name), undefined);
    const waiting = new Set([named("large")]);
    const services = (times: readonly ChangeTimes[]) => times.map(({ service: name }) => name);
    expect(services(tracker.synced(tracker.take(), waiting))).toEqual(["default/small"]);
    expect(tracker.endpointChanges.unsynced).toBe(2);
    expect(services(tracker.synced(tracker.take(), new Set()))).toEqual(["default/large"]);
    expect(tracker.endpointChanges.unsynced).toBe(0);
  });

  test("treats a change as at most an hour old, and never as from the future", () => {
    const { tracker, handlers, clock } = setUp();
    clock.set(10_000_000);
    const at = (time: number) => ({ ...slice({ family: "ip" }), lastChangeTriggerTime: time });
    for (const time of [1, 9_999_000, 20_000_000])
      handlers.endpointslices.onUpsert("default/web-ip", at(time), undefined);
    expect(triggersOf(tracker.take().times)).toEqual([-3_600_000, -1000, 0]);
  });

  test("keeps no times of the first lists, and at most 10,000 later", () => {
    const { tracker, handlers } = setUp({ synced: false });
    const changed = (at: number) => {
      handlers.endpointslices.onUpsert(
        "default/web-ip",
        { ...slice({ family: "ip" }), lastChangeTriggerTime: at },
        undefined,
      );
    };
    changed(1);
    for (const name of RESOURCE_NAMES) handlers[name].onSynced();
    expect(tracker.take()).toMatchObject({ services: new Set(["default/web"]), times: [] });
    for (let at = 1; at <= 10_001; at++) changed(at);
    expect(tracker.take().times).toHaveLength(10_000);
  });

  describe("where rules depend on the podCIDRs of the Node", () => {
    test("announces no change before the Node has some", () => {
      const { tracker, handlers, changes } = setUp({ awaitsPodCIDRs: true });
      handlers.nodes.onUpsert("node-1", node(), undefined);
      expect([tracker.waitingFor, changes()]).toEqual([["podCIDRs"], 0]);
      handlers.nodes.onUpsert("node-1", node({ podCIDRs: { ip: ["10.244.1.0/24"], ip6: [] } }), undefined);
      expect([tracker.waitingFor, changes()]).toEqual([[], 1]);
    });

    test("continues without them five minutes after Nodes were listed, with a warning", () => {
      const { tracker, clock, handlers, logger, changes } = setUp({ awaitsPodCIDRs: true, synced: false });
      clock.advance(600_000);
      expect(tracker.waitingFor).toContain("podCIDRs");
      for (const name of RESOURCE_NAMES) handlers[name].onSynced();
      handlers.nodes.onUpsert("node-1", node(), undefined);
      clock.advance(299_999);
      expect(changes()).toBe(0);
      clock.advance(1);
      expect([tracker.waitingFor, changes()]).toEqual([[], 1]);
      expect(logger.lines.filter(({ level }) => level === "warn").map(({ message }) => message)).toEqual([
        "the Node has no podCIDRs after 5 minutes: programming without them",
      ]);
    });
  });

  test("logs an object that is not valid, and ignores it", () => {
    const { handlers, logger, changes } = setUp();
    logger.lines.length = 0;
    handlers.services.onInvalid("default/odd", new Error("spec.ports[0].port must be 1 to 65535"));
    expect(logger.lines).toEqual([
      {
        level: "warn",
        fields: {
          resource: "services",
          object: "default/odd",
          error: "spec.ports[0].port must be 1 to 65535",
        },
        message: "invalid object ignored",
      },
    ]);
    expect(changes()).toBe(0);
  });

  test("logs an object that is not valid once for each reason, however often it is updated", () => {
    const { handlers, logger } = setUp();
    logger.lines.length = 0;
    for (const reason of ["a", "a", "b"]) handlers.services.onInvalid("default/odd", new Error(reason));
    handlers.services.onUpsert("default/odd", service({ name: "odd" }), undefined);
    handlers.services.onInvalid("default/odd", new Error("b"));
    expect(logger.lines.map(({ fields }) => fields.error)).toEqual(["a", "b", "b"]);
  });
});
