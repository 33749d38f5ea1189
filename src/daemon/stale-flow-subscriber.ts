import type { StaleFlowCleaner } from "../conntrack/stale-flow-cleaner.ts";
import { udpFrontends } from "../conntrack/stale-flows.ts";
import { UdpServicePorts } from "../conntrack/udp-service-ports.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import type { SyncReport, SyncSubscriber } from "../sync/sync-report.ts";

/** Has stale UDP flows deleted after each sync in which a Service with a UDP port changed. */
export class StaleFlowSubscriber implements SyncSubscriber {
  readonly #ports: UdpServicePorts;
  readonly #cleaner: StaleFlowCleaner;

  constructor(cache: ObjectCache, cleaner: StaleFlowCleaner) {
    this.#ports = new UdpServicePorts(cache);
    this.#cleaner = cleaner;
  }

  synced({ rendered }: SyncReport): void {
    if (this.#ports.update(rendered)) void this.#cleaner.clean(udpFrontends(this.#ports.ports()));
  }
}
