import { describe, expect, test } from "vitest";
import { RESOURCE_NAMES } from "../../../src/kube/source.ts";
import { ObjectCache } from "../../../src/model/object-cache.ts";
import { ChangeTracker } from "../../../src/sync/change-tracker.ts";
import { node, service, serviceCIDR, slice } from "../../support/build.ts";
import { memoryLogger } from "../../support/memory-logger.ts";

function setUp({ synced = true } = {}) {
  const cache = new ObjectCache("node-1");
  const logger = memoryLogger();
  let changes = 0;
  const nodes: string[] = [];
  const feed = new ChangeTracker({
    cache,
    logger,
    onChange: () => changes++,
    onNode: ({ zone }) => nodes.push(zone),
  });
  const handlers = feed.handlers();
  if (synced) for (const name of RESOURCE_NAMES) handlers[name].onSynced();
  changes = 0;
  return { cache, logger, feed, handlers, nodes, changes: () => changes };
}

describe("ChangeTracker", () => {
  test("tells of nothing before every resource was given once", () => {
    const { feed, handlers, changes } = setUp({ synced: false });
    handlers.services.onUpsert("default/web", service(), undefined);
    for (const [index, name] of RESOURCE_NAMES.entries()) {
      expect([feed.waitingFor, changes()]).toEqual([RESOURCE_NAMES.slice(index), 0]);
      handlers[name].onSynced();
    }
    expect([feed.waitingFor, changes()]).toEqual([[], 1]);
    handlers.services.onSynced();
    expect(changes(), "a later list is no change by itself").toBe(1);
  });

  test("puts everything into the cache, and takes it out", () => {
    const { cache, handlers, nodes, changes } = setUp();
    const [web, endpoints, cidr] = [
      service(),
      slice({ endpoints: ["10.244.2.11"] }),
      serviceCIDR("a", ["10.96.0.0/16"]),
    ];
    handlers.services.onUpsert("default/web", web, undefined);
    handlers.endpointslices.onUpsert("default/web-ip", endpoints, undefined);
    handlers.servicecidrs.onUpsert("a", cidr, undefined);
    handlers.nodes.onUpsert("node-1", node(), undefined);
    expect([cache.service(web.name), cache.slices(web.name), cache.serviceCIDRs()]).toEqual([web, [endpoints], [cidr]]);
    expect([nodes, changes()]).toEqual([["zone-a"], 4]);
    handlers.services.onDelete("default/web", web);
    handlers.endpointslices.onDelete("default/web-ip", endpoints);
    handlers.servicecidrs.onDelete("a", cidr);
    expect([cache.service(web.name), cache.slices(web.name), cache.serviceCIDRs()]).toEqual([undefined, [], []]);
  });

  test("keeps what a Node said of this host when its object goes", () => {
    const { cache, handlers } = setUp();
    handlers.nodes.onUpsert("node-1", node(), undefined);
    handlers.nodes.onDelete("node-1", node());
    expect(cache.node.zone).toBe("zone-a");
  });

  test("counts changes until a sync has them", () => {
    const { feed, handlers } = setUp();
    handlers.services.onUpsert("default/web", service(), undefined);
    handlers.services.onDelete("default/web", service());
    handlers.endpointslices.onUpsert("default/web-ip", slice({ family: "ip" }), undefined);
    expect([feed.services, feed.endpoints]).toEqual([
      { total: 2, unsynced: 2 },
      { total: 1, unsynced: 1 },
    ]);
    feed.synced();
    expect([feed.services.unsynced, feed.endpoints]).toEqual([0, { total: 1, unsynced: 0 }]);
  });

  test("hands over when endpoints changed, once, and takes it back from a sync that failed", () => {
    const { feed, handlers } = setUp();
    const at = (triggeredAt: number) => ({ ...slice({ family: "ip" }), triggeredAt });
    handlers.endpointslices.onUpsert("default/web-ip", at(0), undefined);
    handlers.endpointslices.onUpsert("default/web-ip", at(5), at(0));
    handlers.endpointslices.onUpsert("default/web-ip", at(5), at(5));
    const taken = feed.takeTriggers();
    expect(taken).toEqual([{ family: "ip", at: 5 }]);
    expect(feed.takeTriggers()).toEqual([]);
    handlers.endpointslices.onUpsert("default/web-ip", at(7), at(5));
    feed.returnTriggers(taken);
    expect(feed.takeTriggers().map((one) => one.at)).toEqual([5, 7]);
  });

  test("names an object that is not valid", () => {
    const { handlers, logger, changes } = setUp();
    logger.lines.length = 0;
    handlers.services.onInvalid("default/odd", new Error("spec.ports[0].port must be 1 to 65535"));
    expect(logger.lines).toEqual([
      {
        level: "warn",
        fields: { resource: "services", object: "default/odd", error: "spec.ports[0].port must be 1 to 65535" },
        message: "object left out: it is not valid",
      },
    ]);
    expect(changes()).toBe(0);
  });
});
