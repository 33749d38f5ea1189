import type { ServiceName } from "../../model/ids.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { ServiceHealth } from "./service-health.ts";

/** What the health check node ports answer, kept in step with the object cache Service by Service. */
export class ServiceHealthCounts {
  readonly #cache: ObjectCache;
  readonly #services = new Map<ServiceName, ServiceHealth>();

  constructor(cache: ObjectCache) {
    this.#cache = cache;
  }

  /** Every Service that has a health check node port. */
  get services(): ReadonlyMap<ServiceName, ServiceHealth> {
    return this.#services;
  }

  /** Looks at these Services again; true when what is answered changed. */
  update(names: Iterable<ServiceName>): boolean {
    let changed = false;
    for (const name of names) {
      const before = this.#services.get(name);
      const after = this.#healthOf(name);
      if (before?.port === after?.port && before?.localEndpoints === after?.localEndpoints) continue;
      changed = true;
      if (after === undefined) this.#services.delete(name);
      else this.#services.set(name, after);
    }
    return changed;
  }

  /** Distinct addresses of ready endpoints on this node, counted in the Service's first family, as kube-proxy does. */
  #healthOf(name: ServiceName): ServiceHealth | undefined {
    const service = this.#cache.service(name);
    if (service === undefined || service.healthCheckNodePort === 0) return undefined;
    const family = service.clusterIPs.ip !== "" ? "ip" : "ip6";
    const local = this.#cache
      .slices(name)
      .filter((slice) => slice.family === family)
      .flatMap((slice) => slice.endpoints)
      .filter((endpoint) => endpoint.ready && endpoint.nodeName === this.#cache.node.name);
    return {
      port: service.healthCheckNodePort,
      localEndpoints: new Set(local.map(({ address }) => address)).size,
    };
  }
}
