import { expect, test } from "vitest";
import type { EventChannel } from "../../../../src/daemon/events/event-channel.ts";
import type { EventNote } from "../../../../src/daemon/events/events.ts";
import { SchedulerEvents } from "../../../../src/daemon/events/scheduler-events.ts";
import type { SyncReport } from "../../../../src/sync/sync-report.ts";
import { cacheOf, named, service } from "../../../support/build.ts";

test("an unknown scheduler is reported once for each value, and again after it was corrected", () => {
  const cache = cacheOf({});
  const notes: EventNote[] = [];
  const channel = {
    recorder: { record: (note: EventNote) => void notes.push(note) },
    service: () => ({ kind: "Service", namespace: "default", name: "web", uid: "u" }),
  } as unknown as EventChannel;
  const events = new SchedulerEvents(cache, channel);
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
