import { expect, test } from "vitest";
import type { EventNote } from "../../../../src/daemon/events/events.ts";
import { portRangeEvents, schedulerEvents } from "../../../../src/daemon/events/sync-events.ts";
import type { SyncReport } from "../../../../src/sync/sync-report.ts";
import { cacheOf, named, service } from "../../../support/build.ts";

test("an unknown scheduler is reported once for each value, and again after it was corrected", () => {
  const cache = cacheOf({});
  const notes: EventNote[] = [];
  const events = schedulerEvents(cache, { record: (note) => void notes.push(note) });
  const sync = (unknownScheduler?: string) => {
    cache.putService({ ...service({}), ...(unknownScheduler === undefined ? {} : { unknownScheduler }) });
    events.synced({ rendered: new Set([named("web")]) } as unknown as SyncReport);
  };
  sync("rr");
  sync("rr");
  sync("lc");
  sync();
  sync("rr");
  expect(notes.map(({ reason, note }) => [reason, note.includes('not "rr"'), note.includes('not "lc"')])).toEqual([
    ["UnknownScheduler", true, false],
    ["UnknownScheduler", false, true],
    ["UnknownScheduler", true, false],
  ]);
});

test("ranges of ports that cannot be served are reported once for each reason", () => {
  const cache = cacheOf({});
  const notes: EventNote[] = [];
  const events = portRangeEvents(cache, { record: (note) => void notes.push(note) });
  for (const invalidPortRanges of ["must be one thing", "must be one thing", "must be another"]) {
    cache.putService({ ...service({}), invalidPortRanges });
    events.synced({ rendered: new Set([named("web")]) } as unknown as SyncReport);
  }
  expect(notes.map(({ reason, note }) => `${reason}: ${note}`)).toEqual([
    "InvalidPortRanges: nft-proxy.io/port-ranges must be one thing: no range is served",
    "InvalidPortRanges: nft-proxy.io/port-ranges must be another: no range is served",
  ]);
});
