import { messageOf } from "../../base/errors.ts";
import { groupBy } from "../../base/group-by.ts";
import { listText, listTextOf } from "../../base/text.ts";
import type { ServiceName } from "../../model/ids.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { IgnoredAnnotation } from "../../model/service.ts";
import { frontendText } from "../../ruleset/keys.ts";
import { conflictSides, type LostFrontend } from "../../ruleset/lost-frontends.ts";
import { type QuarantinedService, quarantinedText } from "../../sync/quarantine-changes.ts";
import type { SyncReport, SyncSubscriber } from "../../sync/sync-report.ts";
import type { EventRecorder } from "./event-recorder.ts";
import { type EventNote, type EventSubject, nodeSubject, serviceSubject, warning } from "./events.ts";

type Recorder = Pick<EventRecorder, "record">;

/** Records Events about repairs, quarantine, conflicts, and failed syncs. */
export function syncEvents(cache: ObjectCache, events: Recorder): SyncSubscriber {
  return {
    synced({ repaired, quarantineChange: { begun, again }, featureChanges, conflicts }: SyncReport): void {
      const { name: node } = cache.node;
      if (repaired !== undefined) {
        const by = repaired.author === undefined ? "" : `, by ${repaired.author}`;
        const note = `another program changed the rules on node ${node}, which have been repaired: ${repaired.text}${by}`;
        events.record(warning(nodeSubject(cache), "RulesRepaired", "Repair", note));
      }
      for (const each of [...begun, ...again]) {
        const subject = serviceSubject(cache, each.service);
        const note = `node ${node} has no rules for ${portsText(each)}, which is quarantined: ${each.reason}`;
        events.record(warning(subject, "ServicePortQuarantined", "Sync", note));
      }
      for (const { feature, begun: reduced } of featureChanges) {
        for (const each of reduced) {
          const subject = serviceSubject(cache, each.service);
          const note = `${portsText(each)} is served without ${feature.text}: ${each.reason}`;
          events.record({ ...warning(subject, feature.event, "Sync", note), clusterKey: "budget" });
        }
      }
      for (const [name, lost] of lostByService(conflicts.begun)) {
        events.record(conflictEvent(serviceSubject(cache, name), lost));
      }
    },
    failed({ error }) {
      const note = `the rules on node ${cache.node.name} are not updated, retrying: ${messageOf(error)}`;
      events.record(warning(nodeSubject(cache), "SyncFailed", "Sync", note));
    },
  };
}

/** The service ports without their IP family. */
function portsText(each: QuarantinedService): string {
  return quarantinedText(each).replace(/^ip6? /, "");
}

/**
 * A Service lost addresses and ports to others. The note does not name a single one, so that the next one
 * that the same port loses to the same winner repeats the Event.
 */
export function conflictEvent(service: EventSubject, lost: readonly LostFrontend[]): EventNote {
  const { losers, winners } = conflictSides(lost);
  const name = `${service.namespace}/${service.name}`;
  const frontends = listTextOf(lost, ({ frontend }) => frontendText(frontend));
  const have = winners.length === 1 ? "has" : "have";
  const [count, which] = lost.length === 1 ? ["one", ""] : [lost.length, `: ${frontends}`];
  const note = `${listText(losers)} is not served at ${count} of its addresses and ports, which ${listText(winners)} ${have}${which}; change one of these Services (nft-proxy explain ${name} lists all)`;
  // Nodes may find several in different syncs, so the numbers differ.
  const clusterKey = [...losers, ...winners].join(" ");
  return { ...warning(service, "AddressConflict", "Sync", note), clusterKey };
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
          const note = `${one.annotation} ${one.reason}: ${one.consequence}`;
          const event = warning(serviceSubject(cache, name), one.event, "Sync", note);
          events.record({ ...event, clusterKey: note });
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
