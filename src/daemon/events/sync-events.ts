import { messageOf } from "../../base/errors.ts";
import { groupBy } from "../../base/group-by.ts";
import type { ServiceName } from "../../model/ids.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { IgnoredAnnotation } from "../../model/service.ts";
import type { LostFrontend } from "../../ruleset/lost-frontends.ts";
import { type QuarantinedService, quarantinedText } from "../../sync/quarantine-changes.ts";
import type { SyncReport, SyncSubscriber } from "../../sync/sync-report.ts";
import type { EventRecorder } from "./event-recorder.ts";
import {
  conflictEvent,
  driftRepairedEvent,
  failedSyncEvent,
  ignoredAnnotationEvent,
  nodeSubject,
  quarantineEvent,
  reducedEvent,
  serviceSubject,
} from "./events.ts";

type Recorder = Pick<EventRecorder, "record">;

/** Records Events about repairs, quarantine, conflicts, and failed syncs. */
export function syncEvents(cache: ObjectCache, events: Recorder): SyncSubscriber {
  return {
    synced({ repaired, quarantineChange: { begun, again }, featureChanges, conflicts }: SyncReport): void {
      if (repaired !== undefined) {
        const by = repaired.author === undefined ? "" : `, by ${repaired.author}`;
        events.record(driftRepairedEvent(nodeSubject(cache), `${repaired.text}${by}`));
      }
      for (const each of [...begun, ...again]) {
        const service = serviceSubject(cache, each.service);
        events.record(quarantineEvent(service, portsText(each), cache.node.name, each.reason));
      }
      for (const { feature, begun: reduced } of featureChanges) {
        for (const each of reduced) {
          const service = serviceSubject(cache, each.service);
          events.record(reducedEvent(feature, service, portsText(each), each.reason));
        }
      }
      for (const [name, lost] of lostByService(conflicts.begun)) {
        events.record(conflictEvent(serviceSubject(cache, name), lost));
      }
    },
    failed: ({ error }) => events.record(failedSyncEvent(nodeSubject(cache), messageOf(error))),
  };
}

/** The service ports without their IP family. */
function portsText(each: QuarantinedService): string {
  return quarantinedText(each).replace(/^ip6? /, "");
}

/** Records an Event for each annotation of a Service without effect, once until the reason changes. */
export function annotationEvents(cache: ObjectCache, events: Recorder): SyncSubscriber {
  const reported = new Map<ServiceName, readonly IgnoredAnnotation[]>();
  return {
    synced({ rendered }: Pick<SyncReport, "rendered">): void {
      for (const name of rendered) {
        const ignored = cache.service(name)?.ignoredAnnotations;
        const known = reported.get(name) ?? [];
        if (ignored === undefined) reported.delete(name);
        else reported.set(name, ignored);
        for (const one of ignored ?? []) {
          if (known.some(({ annotation, reason }) => annotation === one.annotation && reason === one.reason))
            continue;
          events.record(ignoredAnnotationEvent(serviceSubject(cache, name), one));
        }
      }
    },
  };
}

/** Groups lost frontends by the Service that lost them. */
export function lostByService(
  lost: readonly LostFrontend[],
): ReadonlyMap<ServiceName, readonly LostFrontend[]> {
  return groupBy(lost, ({ loser }) => loser.service.name);
}
