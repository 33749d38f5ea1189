import { endpointsOf } from "../model/endpoint.ts";
import type { ServiceName } from "../model/ids.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import { comparePrecedence, servicePortsOf } from "../model/service-port.ts";
import type { ServicePortEndpoints } from "./stale-flows.ts";

/** Tracks the Services that have UDP ports, so that changes of others cause no listing of flows. */
export class UdpServicePorts {
  readonly #cache: ObjectCache;
  readonly #services = new Set<ServiceName>();

  constructor(cache: ObjectCache) {
    this.#cache = cache;
  }

  /** Updates these Services; true when one of them has or had a UDP port. */
  update(names: Iterable<ServiceName>): boolean {
    let changed = false;
    for (const name of names) {
      const had = this.#services.delete(name);
      const has = this.#cache.service(name)?.ports.some(({ protocol }) => protocol === "udp") ?? false;
      if (has) this.#services.add(name);
      changed ||= had || has;
    }
    return changed;
  }

  /** The UDP service ports with all their endpoints, by precedence, so that the winner of a conflict comes first. */
  ports(): ServicePortEndpoints[] {
    return [...this.#services]
      .flatMap((name) => {
        const service = this.#cache.service(name);
        return service === undefined ? [] : servicePortsOf(service);
      })
      .filter(({ spec }) => spec.protocol === "udp")
      .sort(comparePrecedence)
      .map((port) => {
        const slices = this.#cache.slices(port.service.name);
        return { port, endpoints: endpointsOf(slices, port, this.#cache.node.name) };
      });
  }
}
