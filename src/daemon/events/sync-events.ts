import { messageOf } from "../../base/errors.ts";
import type { ServiceName } from "../../model/ids.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { Service } from "../../model/service.ts";
import type { ServicePort } from "../../model/service-port.ts";
import type { Conflict } from "../../ruleset/family-state.ts";
import { driftSummary } from "../../sync/drift-summary.ts";
import type { SyncReport, SyncSubscriber } from "../../sync/sync-report.ts";
import type { EventRecorder } from "./event-recorder.ts";
import {
  contestedEvent,
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
import { quarantinedText, quarantineWatch } from "./quarantine-watch.ts";

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
  const newlyLost = conflictWatch();
  const changeOf = quarantineWatch();
  return {
    synced(report: SyncReport): void {
      const drift = driftSummary(report);
      const author = driftAuthor();
      const by = author === undefined ? "" : `, by ${author}`;
      if (drift !== undefined) events.record(driftRepairedEvent(nodeSubject(cache), `${drift.text}${by}`));
      for (const each of changeOf(report.quarantined, report.refused).begun) {
        const servicePorts = quarantinedText(each).replace(/^ip6? /, "");
        const service = serviceSubject(cache, each.service);
        events.record(quarantineEvent(service, servicePorts, cache.node.name, each.reason));
      }
      for (const { winner, loser } of newlyLost(report.state.conflicts())) {
        events.record(contestedEvent(serviceSubject(cache, loser.service.name), loser.name, winner.name));
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

/** A service port without one of its frontends, because another Service has it. */
export interface LostFrontend {
  /** The frontend's key in the maps: `10.96.0.10 . tcp . 53`. */
  readonly frontend: string;
  readonly winner: ServicePort;
  readonly loser: ServicePort;
}

/** @returns tells the frontends that were lost since its last call, of all conflicts that there are */
export function conflictWatch(): (conflicts: readonly Conflict[]) => readonly LostFrontend[] {
  let known: ReadonlySet<string> = new Set();
  const keyOf = ({ frontend, winner, loser }: LostFrontend) => `${frontend} ${winner.key} ${loser.key}`;
  return (conflicts) => {
    const lost = conflicts.flatMap(({ frontend, winner, losers }) =>
      losers.map((loser) => ({ frontend, winner, loser })),
    );
    const fresh = lost.filter((one) => !known.has(keyOf(one)));
    known = new Set(lost.map(keyOf));
    return fresh;
  };
}
