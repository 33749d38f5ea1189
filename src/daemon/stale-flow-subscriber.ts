import type { StaleFlowCleaner } from "../conntrack/stale-flow-cleaner.ts";
import type { UdpServicePorts } from "../conntrack/stale-flows.ts";
import type { SyncReport, SyncSubscriber } from "../sync/sync-report.ts";

/**
 * Has stale UDP flows deleted after each sync in which a Service with a UDP port changed, and after each full sync: while
 * our rules were missing, flows to frontends passed untranslated, and would stay so as long as their clients keep sending.
 */
export class StaleFlowSubscriber implements SyncSubscriber {
  readonly #ports: UdpServicePorts;
  readonly #cleaner: Pick<StaleFlowCleaner, "clean">;

  constructor(ports: UdpServicePorts, cleaner: Pick<StaleFlowCleaner, "clean">) {
    this.#ports = ports;
    this.#cleaner = cleaner;
  }

  synced({ kind, rendered }: Pick<SyncReport, "kind" | "rendered">): void {
    const isChanged = this.#ports.update(rendered);
    if (isChanged || kind === "full") void this.#cleaner.clean();
  }
}
