import type { ObjectCache } from "../../model/object-cache.ts";
import type { SyncReport, SyncSubscriber } from "../../sync/sync-report.ts";
import { healthCheckAddresses, type ServiceHealthServers } from "./service-health.ts";
import { ServiceHealthCounts } from "./service-health-counts.ts";

/** Keeps the health check node ports in step with the programmed rules. */
export class ServiceHealthSubscriber implements SyncSubscriber {
  readonly #counts: ServiceHealthCounts;
  readonly #servers: ServiceHealthServers;
  #addresses = "";

  constructor(cache: ObjectCache, servers: ServiceHealthServers) {
    this.#counts = new ServiceHealthCounts(cache);
    this.#servers = servers;
  }

  synced({ rendered, nodeContext }: SyncReport): void {
    const addresses = healthCheckAddresses(nodeContext);
    const isChanged = this.#counts.update(rendered);
    const text = JSON.stringify(addresses);
    if (!isChanged && text === this.#addresses) return;
    this.#addresses = text;
    void this.#servers.sync(new Map(this.#counts.services), addresses);
  }
}
