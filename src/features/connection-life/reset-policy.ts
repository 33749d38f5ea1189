import type { ServiceName } from "../../model/ids.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import { type ConnectionLife, connectionLifeOf } from "./life.ts";

/** Tells what Services want for connections to endpoints that left them: to reset or to keep them. */
export class ResetPolicy {
  readonly #cache: ObjectCache;
  readonly #byDefault: boolean;
  /** Services that want something else than the default. A deleted one counts until its slices are gone. */
  readonly #others = new Map<ServiceName, ConnectionLife>();

  /** @param byDefault whether connections are reset unless a Service says otherwise */
  constructor(cache: ObjectCache, byDefault: boolean) {
    this.#cache = cache;
    this.#byDefault = byDefault;
    for (const name of cache.serviceNames()) this.update(name);
  }

  /** Whether the default or a Service asks for resets. */
  get isNeeded(): boolean {
    return this.#byDefault || this.#others.size > 0;
  }

  /** Whether a Service wants to keep connections. */
  keeps(service: ServiceName): boolean {
    const wanted = this.#others.get(service)?.onEndpointRemoved;
    return wanted === undefined ? !this.#byDefault : wanted === "keep";
  }

  /** Whether one of some Services wants to keep connections; as by default if they are not known. */
  keepsAny(services: readonly ServiceName[]): boolean {
    return services.length === 0 ? !this.#byDefault : services.some((name) => this.keeps(name));
  }

  /** Reads a Service that changed, or whose slices were deleted. */
  update(name: ServiceName): void {
    const service = this.#cache.service(name);
    if (service === undefined) {
      if (this.#cache.slices(name).length === 0) this.#others.delete(name);
      return;
    }
    const life = connectionLifeOf(service);
    const { onEndpointRemoved, drainTimeoutMs } = life;
    const isOther = onEndpointRemoved !== undefined && (onEndpointRemoved === "reset") !== this.#byDefault;
    if (isOther || drainTimeoutMs !== undefined) this.#others.set(name, life);
    else this.#others.delete(name);
  }
}
