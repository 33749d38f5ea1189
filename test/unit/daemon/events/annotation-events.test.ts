import { expect, test } from "vitest";
import type { EventNote } from "../../../../src/daemon/events/events.ts";
import { annotationEvents, unservedRangeEvents } from "../../../../src/daemon/events/sync-events.ts";
import type { IgnoredAnnotation, PortRangeAddresses } from "../../../../src/model/service.ts";
import type { SyncReport } from "../../../../src/sync/sync-report.ts";
import { cacheOf, named, port, service, testNodeContext } from "../../../support/build.ts";

function invalid(annotation: string, event: string, reason: string): IgnoredAnnotation {
  return { annotation, event, reason, consequence: "it is ignored" };
}

function recorded() {
  const cache = cacheOf({});
  const notes: EventNote[] = [];
  const events = annotationEvents(cache, { record: (note) => void notes.push(note) });
  const sync = (...ignoredAnnotations: IgnoredAnnotation[]) => {
    cache.putService({ ...service({}), ...(ignoredAnnotations.length > 0 && { ignoredAnnotations }) });
    events.synced({ rendered: new Set([named("web")]) } as unknown as SyncReport);
    return notes.splice(0).map(({ reason, note }) => `${reason}: ${note}`);
  };
  return sync;
}

test("an invalid annotation is reported once for each reason, and again if it returns after a correction", () => {
  const sync = recorded();
  const first = "UnknownScheduler: nft-proxy.io/scheduler must be x: it is ignored";
  expect(sync(invalid("nft-proxy.io/scheduler", "UnknownScheduler", "must be x"))).toEqual([first]);
  expect(sync(invalid("nft-proxy.io/scheduler", "UnknownScheduler", "must be x"))).toEqual([]);
  expect(sync(invalid("nft-proxy.io/scheduler", "UnknownScheduler", "must be y"))).toEqual([
    "UnknownScheduler: nft-proxy.io/scheduler must be y: it is ignored",
  ]);
  expect(sync()).toEqual([]);
  expect(sync(invalid("nft-proxy.io/scheduler", "UnknownScheduler", "must be x"))).toEqual([first]);
});

test("a further invalid annotation is reported without those known already", () => {
  const sync = recorded();
  sync(invalid("nft-proxy.io/port-ranges", "InvalidPortRanges", "must be x"));
  expect(
    sync(
      invalid("nft-proxy.io/port-ranges", "InvalidPortRanges", "must be x"),
      invalid("nft-proxy.io/drain-timeout", "InvalidConnectionLife", "must be y"),
    ),
  ).toEqual(["InvalidConnectionLife: nft-proxy.io/drain-timeout must be y: it is ignored"]);
});

test("an annotation of a feature that is off is reported as such", () => {
  const annotation = "nft-proxy.io/client-limits";
  const one = {
    annotation,
    event: "FeatureNotEnabled",
    reason: "needs a feature",
    consequence: "it is ignored",
  };
  const sync = recorded();
  expect(sync(one)).toEqual([`FeatureNotEnabled: ${annotation} needs a feature: it is ignored`]);
  expect(sync(one)).toEqual([]);
});

test("port ranges that this node does not serve are reported once for each Service, mode and version", async () => {
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
  cache.putService(service({ externalIPs: ["192.0.2.2"] }));
  expect(await sync("virtual")).toEqual([]);
});
