import { expect, test } from "vitest";
import type { EventNote } from "../../../../src/daemon/events/events.ts";
import { annotationEvents } from "../../../../src/daemon/events/sync-events.ts";
import type { IgnoredAnnotation } from "../../../../src/model/service.ts";
import type { SyncReport } from "../../../../src/sync/sync-report.ts";
import { cacheOf, named, service } from "../../../support/build.ts";

function invalid(annotation: string, event: string, reason: string): IgnoredAnnotation {
  return { annotation, event, reason, consequence: "it is ignored" };
}

function recorded() {
  const cache = cacheOf({});
  const notes: EventNote[] = [];
  const events = annotationEvents(cache, { record: (note) => void notes.push(note) });
  /** Checks that all nodes record the same. */
  const sync = (...ignoredAnnotations: IgnoredAnnotation[]) => {
    cache.putService({ ...service({}), ...(ignoredAnnotations.length > 0 && { ignoredAnnotations }) });
    events.synced({ rendered: new Set([named("web")]) } as unknown as SyncReport);
    for (const { note, clusterKey } of notes) expect(clusterKey).toBe(note);
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
