import { messageOf } from "../../base/errors.ts";
import { serviceOf } from "../../model/ids.ts";
import { driftSummary } from "../../sync/drift-summary.ts";
import type { Quarantine, SyncFailure, SyncReport, SyncSubscriber } from "../../sync/sync-report.ts";
import { ConflictWatch } from "../conflict-watch.ts";
import type { EventChannel } from "./event-channel.ts";
import { contestedEvent, driftRepairedEvent, failedSyncEvent, quarantineEvent } from "./events.ts";

/** Reports to the cluster what operators should know of syncs, as Events. */
export class SyncEvents implements SyncSubscriber {
  readonly #events: EventChannel;
  readonly #conflicts = new ConflictWatch();
  /** As of the last sync. */
  #quarantined: Quarantine = new Map();

  constructor(events: EventChannel) {
    this.#events = events;
  }

  synced(report: SyncReport): void {
    const { recorder } = this.#events;
    const node = this.#events.node();
    const drift = driftSummary(report);
    if (drift !== undefined) recorder.record(driftRepairedEvent(node, drift.text));
    for (const [key, reason] of report.quarantined) {
      if (this.#quarantined.get(key) === reason && !report.refused.includes(key)) continue;
      const servicePort = key.slice(key.indexOf(" ") + 1);
      recorder.record(quarantineEvent(this.#events.service(serviceOf(key)), servicePort, node.name, reason));
    }
    this.#quarantined = new Map(report.quarantined);
    for (const { winner, loser } of this.#conflicts.newlyLost(report.state.conflicts())) {
      recorder.record(contestedEvent(this.#events.service(loser.service.name), loser.name, winner.name));
    }
  }

  failed({ error }: SyncFailure): void {
    this.#events.recorder.record(failedSyncEvent(this.#events.node(), messageOf(error)));
  }
}
