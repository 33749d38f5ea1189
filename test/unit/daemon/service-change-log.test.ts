import { expect, test } from "vitest";
import { serviceChangeLog } from "../../../src/daemon/service-change-log.ts";
import type { EndpointSlice } from "../../../src/model/endpoint-slice.ts";
import type { ServiceName } from "../../../src/model/ids.ts";
import { cacheOf, endpoint, named, service, slice } from "../../support/build.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { memoryLogger } from "../../support/memory-logger.ts";

const web = service();
const on = (address: string, nodeName: string) => endpoint(address, { nodeName });

function setUp() {
  const cache = cacheOf({ services: [web], slices: [slice({ endpoints: [on("10.244.2.11", "a")] })] });
  const clock = new ManualClock();
  const logger = memoryLogger();
  const log = serviceChangeLog(cache, clock, logger);
  const sync = (...names: readonly string[]) =>
    log.synced({ rendered: new Set<ServiceName>(names.map(named)) });
  sync("web");
  return { cache, clock, logger, sync };
}

test("the log names no Services for the first sync", () => {
  expect(setUp().logger.lines).toEqual([]);
});

test("the log counts a Service's endpoints of both families once", () => {
  const { cache, logger, sync } = setUp();
  cache.putSlice(slice({ endpoints: [on("10.244.2.11", "a"), on("10.244.3.11", "b")] }));
  cache.putSlice(slice({ endpoints: [on("fd00:244:2::11", "a"), on("fd00:244:3::11", "b")] }));
  sync("web");
  expect(logger.lines.map(({ fields }) => [fields.ready, fields.nodes])).toEqual([[2, 2]]);
});

test("the log names a changed Service with its change", () => {
  const { cache, logger, sync } = setUp();
  cache.putSlice(
    slice({ endpoints: [on("10.244.2.11", "a"), on("10.244.3.11", "b"), on("10.244.3.12", "b")] }),
  );
  sync("web");
  cache.putService({ ...web, affinitySeconds: 60 });
  sync("web");
  cache.putService(service({ name: "dns", clusterIPs: ["10.96.0.53"] }));
  cache.deleteService(web.name);
  sync("dns", "web");
  expect(logger.lines.map(({ level, fields }) => [level, fields])).toEqual([
    ["info", { service: "default/web", change: "endpoints", ready: 3, was: 1, nodes: 2 }],
    ["info", { service: "default/web", change: "service", ready: 3, nodes: 2 }],
    ["info", { service: "default/dns", change: "added", ready: 0, nodes: 0 }],
    ["info", { service: "default/web", change: "deleted" }],
  ]);
});

test("the log does not name a Service that is rendered again without a change", () => {
  const { cache, logger, sync } = setUp();
  cache.putService(service({ name: "bare", clusterIPs: ["10.96.0.53"] }));
  cache.putService(service({ name: "large", clusterIPs: ["10.96.0.54"] }));
  for (let index = 0; index < 40; index++)
    cache.putSlice(slice({ name: `large-${index}`, service: "large", endpoints: [`10.244.4.${index}`] }));
  sync("bare", "large");
  const before = logger.lines.length;
  sync("web", "bare", "large");
  expect(logger.lines.slice(before)).toEqual([]);
});

test("the log names 20 Services at once and two a second, and counts the others", () => {
  const { cache, clock, logger, sync } = setUp();
  for (let n = 0; n < 232; n++) {
    cache.putService(service({ name: `s${n}`, clusterIPs: [`10.96.1.${n}`] }));
    sync(`s${n}`);
  }
  expect(logger.lines).toHaveLength(20);
  clock.advance(1000);
  for (let affinitySeconds = 60; affinitySeconds < 70; affinitySeconds++) {
    cache.putService({ ...web, affinitySeconds });
    sync("web");
  }
  expect(logger.lines.slice(20).map(({ fields }) => [fields.service, fields.linesLeftOut])).toEqual([
    ["default/web", 212],
    ["default/web", undefined],
  ]);
});

test("the log counts no endpoints for lines that it does not write", () => {
  const { cache, logger, sync } = setUp();
  let counted = 0;
  const watched = (n: number): EndpointSlice => {
    const { endpoints, ...rest } = slice({ name: "web-x", endpoints: [on(`10.244.2.${n}`, "a")] });
    return Object.defineProperty(rest as EndpointSlice, "endpoints", {
      get: () => {
        counted++;
        return endpoints;
      },
    });
  };
  const change = (n: number) => {
    cache.putSlice(watched(n));
    counted = 0;
    sync("web");
    return counted;
  };
  expect(change(1)).toBeGreaterThan(0);
  for (let n = 2; n <= 20; n++) change(n);
  expect(logger.lines).toHaveLength(20);
  expect(change(21)).toBe(0);
});

test("the log says nothing of the endpoints of a Service with more than 20,000", () => {
  const { cache, logger, sync } = setUp();
  const many = Array.from({ length: 20_000 }, (_, n) => on(`10.${n >> 8}.${n & 255}.1`, "a"));
  cache.putSlice(slice({ name: "web-many", endpoints: many }));
  sync("web");
  expect(logger.lines.map(({ fields }) => fields)).toEqual([{ service: "default/web", change: "endpoints" }]);
});
