import { FAMILIES, type Family } from "../../base/family.ts";
import type { ServiceName } from "../../model/ids.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import { hasFamily } from "../../model/service.ts";
import type { SyncSubscriber } from "../../sync/sync-report.ts";
import { healthCheckAddresses, type ServiceHealth, type ServiceHealthServers } from "./service-health.ts";

/** Keeps the counts for the answers of health check node ports. */
export class ServiceHealthCounts {
  readonly #cache: ObjectCache;
  readonly #services = new Map<ServiceName, ServiceHealth>();

  constructor(cache: ObjectCache) {
    this.#cache = cache;
  }

  /** All Services with a health check node port. */
  get services(): ReadonlyMap<ServiceName, ServiceHealth> {
    return this.#services;
  }

  /** Counts the endpoints of these Services again. @returns whether an answer changed */
  update(names: Iterable<ServiceName>): boolean {
    let changed = false;
    for (const name of names) {
      const before = this.#services.get(name);
      const after = this.#healthOf(name);
      if (JSON.stringify(before) === JSON.stringify(after)) continue;
      changed = true;
      if (after === undefined) this.#services.delete(name);
      else this.#services.set(name, after);
    }
    return changed;
  }

  #healthOf(name: ServiceName): ServiceHealth | undefined {
    const service = this.#cache.service(name);
    if (service === undefined || service.healthCheckNodePort === 0) return undefined;
    const families = FAMILIES.filter((family) => hasFamily(service, family));
    const localEndpoints = Object.fromEntries(
      families.map((family) => [family, this.#localEndpoints(name, family)]),
    );
    return { port: service.healthCheckNodePort, localEndpoints };
  }

  /**
   * Counts distinct ready addresses on this node in one family. Each family has its own count, as in
   * kube-proxy.
   */
  #localEndpoints(name: ServiceName, family: Family): number {
    const local = this.#cache
      .slices(name)
      .filter((slice) => slice.family === family)
      .flatMap((slice) => [...slice.endpoints])
      .filter((endpoint) => endpoint.ready && endpoint.nodeName === this.#cache.node.name);
    return new Set(local.map(({ address }) => address)).size;
  }
}

/** Updates the health check node ports after each sync. */
export function serviceHealthSubscriber(cache: ObjectCache, servers: ServiceHealthServers): SyncSubscriber {
  const counts = new ServiceHealthCounts(cache);
  let last = "";
  return {
    synced({ rendered, nodeContext }) {
      const addresses = healthCheckAddresses(nodeContext);
      const isChanged = counts.update(rendered);
      const text = JSON.stringify(addresses);
      if (!isChanged && text === last) return;
      last = text;
      void servers.sync(new Map(counts.services), addresses);
    },
  };
}
