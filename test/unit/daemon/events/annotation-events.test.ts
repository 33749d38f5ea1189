import { expect, test } from "vitest";
import type { EventNote } from "../../../../src/daemon/events/events.ts";
import { annotationEvents, unservedRangeEvents } from "../../../../src/daemon/events/sync-events.ts";
import type { PortRangeAddresses } from "../../../../src/model/service.ts";
import type { SyncReport } from "../../../../src/sync/sync-report.ts";
import { cacheOf, named, port, service, testNodeContext } from "../../../support/build.ts";

test("an unknown scheduler is reported once for each value, and again if it returns after a correction", () => {
  const cache = cacheOf({});
  const notes: EventNote[] = [];
  const events = annotationEvents(cache, { record: (note) => void notes.push(note) });
  const sync = (unknownScheduler?: string) => {
    cache.putService({ ...service({}), ...(unknownScheduler === undefined ? {} : { unknownScheduler }) });
    events.synced({ rendered: new Set([named("web")]) } as unknown as SyncReport);
  };
  sync("rr");
  sync("rr");
  sync("lc");
  sync();
  sync("rr");
  expect(
    notes.map(({ reason, note }) => [reason, note.includes('not "rr"'), note.includes('not "lc"')]),
  ).toEqual([
    ["UnknownScheduler", true, false],
    ["UnknownScheduler", false, true],
    ["UnknownScheduler", true, false],
  ]);
});

test("ranges of ports that cannot be served are reported once for each reason", () => {
  const cache = cacheOf({});
  const notes: EventNote[] = [];
  const events = annotationEvents(cache, { record: (note) => void notes.push(note) });
  for (const invalidPortRanges of ["must be one thing", "must be one thing", "must be another"]) {
    cache.putService({ ...service({}), invalidPortRanges });
    events.synced({ rendered: new Set([named("web")]) } as unknown as SyncReport);
  }
  expect(notes.map(({ reason, note }) => `${reason}: ${note}`)).toEqual([
    "InvalidPortRanges: nft-proxy.io/port-ranges must be one thing: no range is served",
    "InvalidPortRanges: nft-proxy.io/port-ranges must be another: no range is served",
  ]);
});

test("annotations of limits that are ignored are reported", () => {
  const cache = cacheOf({});
  const notes: EventNote[] = [];
  const events = annotationEvents(cache, { record: (note) => void notes.push(note) });
  cache.putService({ ...service({}), invalidClientLimits: "nft-proxy.io/x must be y" });
  events.synced({ rendered: new Set([named("web")]) } as unknown as SyncReport);
  expect(notes.map(({ reason, note }) => `${reason}: ${note}`)).toEqual([
    "InvalidClientLimits: nft-proxy.io/x must be y: it is ignored",
  ]);
});

test("timeouts that are ignored are reported with the reason", () => {
  const cache = cacheOf({});
  const notes: EventNote[] = [];
  const events = annotationEvents(cache, { record: (note) => void notes.push(note) });
  cache.putService({ ...service({}), invalidConnectionTimeouts: "must be one thing" });
  events.synced({ rendered: new Set([named("web")]) } as unknown as SyncReport);
  expect(notes.map(({ reason, note }) => `${reason}: ${note}`)).toEqual([
    "InvalidConnectionTimeouts: nft-proxy.io/connection-timeouts must be one thing: it is ignored",
  ]);
});

test("an ignored annotation of the life of connections is reported", () => {
  const cache = cacheOf({});
  const notes: EventNote[] = [];
  const events = annotationEvents(cache, { record: (note) => void notes.push(note) });
  cache.putService({ ...service({}), invalidConnectionLife: "nft-proxy.io/x must be y" });
  events.synced({ rendered: new Set([named("web")]) } as unknown as SyncReport);
  expect(notes.map(({ reason, note }) => `${reason}: ${note}`)).toEqual([
    "InvalidConnectionLife: nft-proxy.io/x must be y: it is ignored",
  ]);
});

test("ranges of ports that this node does not serve are reported once for each Service, mode and version", async () => {
  const cache = cacheOf({});
  const notes: EventNote[] = [];
  const record = (note: EventNote) => void notes.push(note);
  let readings = 0;
  const events = unservedRangeEvents(cache, { record }, async () => {
    readings += 1;
    return ["192.0.2.2", "fd00:c0::2"];
  });
  const sync = async (portRanges: PortRangeAddresses, externalIPs?: readonly string[]) => {
    if (externalIPs !== undefined) {
      const ports = [port(80, { ranges: [{ first: 8000, last: 8999 }] })];
      cache.putService(service({ clusterIPs: ["10.96.0.10", "fd00:10:96::10"], externalIPs, ports }));
    }
    events.synced({
      rendered: new Set([named("web")]),
      nodeContext: testNodeContext({ portRanges }),
    } as never);
    await new Promise((resolve) => setImmediate(resolve));
    return notes
      .splice(0)
      .map(({ type, reason, note, clusterKey }) => `${type} ${reason} ${clusterKey}: ${note}`);
  };
  const local =
    "Warning PortRangesNotServed local: node node-1, and possibly others, does not serve nft-proxy.io/port-ranges at its own address";
  expect(await sync("virtual", ["203.0.113.7"])).toEqual([]);
  expect(await sync("virtual", ["203.0.113.7", "192.0.2.2"])).toEqual([
    `${local} 192.0.2.2: see --port-ranges`,
  ]);
  expect(await sync("virtual")).toEqual([]);
  expect(await sync("all")).toEqual([]);
  expect(readings).toBe(2);
  expect(await sync("virtual", ["192.0.2.2", "fd00:c0::2"])).toEqual([
    `${local} 192.0.2.2 and fd00:c0::2: see --port-ranges`,
  ]);
  expect(await sync("off")).toEqual([
    "Warning PortRangesNotServed off: nft-proxy.io/port-ranges is ignored: --port-ranges is off",
  ]);
  cache.putService(service({ externalIPs: ["192.0.2.2"] }));
  expect([await sync("off"), await sync("virtual")]).toEqual([[], []]);
});
