import { messageOf } from "../../base/errors.ts";
import { groupBy } from "../../base/group-by.ts";
import type { ServiceName } from "../../model/ids.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { Service } from "../../model/service.ts";
import type { LostFrontend } from "../../ruleset/lost-frontends.ts";
import { quarantinedText } from "../../sync/quarantine-watch.ts";
import type { SyncReport, SyncSubscriber } from "../../sync/sync-report.ts";
import type { EventRecorder } from "./event-recorder.ts";
import {
  contestedEvent,
  contestedServiceEvent,
  driftRepairedEvent,
  type EventNote,
  type EventSubject,
  failedSyncEvent,
  invalidPortRangesEvent,
  nodeSubject,
  quarantineEvent,
  serviceSubject,
  unknownSchedulerEvent,
} from "./events.ts";

/** What takes Events. */
type Recorder = Pick<EventRecorder, "record">;

/**
 * Reports to the cluster what operators should know of syncs, as Events.
 * @param driftAuthor the program that changed our rules just now, where the kernel told; without its process id, so that
 * repeated Events are one
 */
export function syncEvents(
  cache: ObjectCache,
  events: Recorder,
  driftAuthor: () => string | undefined,
): SyncSubscriber {
  return {
    synced({ repaired, quarantineChange: { begun, again }, conflicts }: SyncReport): void {
      const author = driftAuthor();
      const by = author === undefined ? "" : `, by ${author}`;
      if (repaired !== undefined) events.record(driftRepairedEvent(nodeSubject(cache), `${repaired.text}${by}`));
      for (const each of [...begun, ...again]) {
        const servicePorts = quarantinedText(each).replace(/^ip6? /, "");
        const service = serviceSubject(cache, each.service);
        events.record(quarantineEvent(service, servicePorts, cache.node.name, each.reason));
      }
      for (const [name, lost] of lostByService(conflicts.begun)) {
        events.record(conflictEvent(serviceSubject(cache, name), lost));
      }
    },
    failed: ({ error }) => events.record(failedSyncEvent(nodeSubject(cache), messageOf(error))),
  };
}

/** Reports Services whose annotation names no scheduler, once for each value. */
export function schedulerEvents(cache: ObjectCache, events: Recorder): SyncSubscriber {
  return annotationEvents(cache, events, ({ unknownScheduler }) => unknownScheduler, unknownSchedulerEvent);
}

/** Reports Services whose annotation has ranges of ports that cannot be served, once for each reason. */
export function portRangeEvents(cache: ObjectCache, events: Recorder): SyncSubscriber {
  return annotationEvents(cache, events, ({ invalidPortRanges }) => invalidPortRanges, invalidPortRangesEvent);
}

/** @param wrongOf what is wrong with an annotation of a Service; undefined where nothing is */
function annotationEvents(
  cache: ObjectCache,
  events: Recorder,
  wrongOf: (service: Service) => string | undefined,
  eventOf: (subject: EventSubject, wrong: string) => EventNote,
): SyncSubscriber {
  const reported = new Map<ServiceName, string>();
  return {
    synced({ rendered }: Pick<SyncReport, "rendered">): void {
      for (const name of rendered) {
        const service = cache.service(name);
        const wrong = service && wrongOf(service);
        if (wrong === undefined) {
          reported.delete(name);
        } else if (reported.get(name) !== wrong) {
          reported.set(name, wrong);
          events.record(eventOf(serviceSubject(cache, name), wrong));
        }
      }
    },
  };
}

/** Lost frontends by the Service that wants them. */
export function lostByService(lost: readonly LostFrontend[]): ReadonlyMap<ServiceName, readonly LostFrontend[]> {
  return groupBy(lost, ({ loser }) => loser.service.name);
}

function conflictEvent(service: EventSubject, lost: readonly LostFrontend[]): EventNote {
  const [first, ...others] = lost;
  if (first === undefined || others.length > 0) return contestedServiceEvent(service, lost);
  return contestedEvent(service, first.loser.name, first.winner.name);
}
