import type { Clock, Timer } from "../base/clock.ts";
import { byFamily } from "../base/family.ts";
import type { Logger } from "../base/logger.ts";
import { counted } from "../base/text.ts";
import type { EndpointSlice } from "../model/endpoint-slice.ts";
import type { ServiceName } from "../model/ids.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import type { Service } from "../model/service.ts";
import type { SyncReport, SyncSubscriber } from "../sync/sync-report.ts";

/** At most so many Services are named within one window, milliseconds; the others are counted at its end. */
const MAX_LINES = 20;
const WINDOW = 10_000;

/** A Service as it was last programmed. */
interface Programmed {
  readonly service: Service;
  readonly slices: readonly EndpointSlice[];
  readonly ready: number;
}

/** Logs one line for each changed Service and sync, and counts them when there are too many to name. */
export class ServiceChangeLog implements SyncSubscriber {
  readonly #cache: ObjectCache;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #programmed = new Map<ServiceName, Programmed>();
  #isFirst = true;
  #lines = 0;
  readonly #others = new Set<ServiceName>();
  #window: Timer | undefined;

  constructor(cache: ObjectCache, clock: Clock, logger: Logger) {
    this.#cache = cache;
    this.#clock = clock;
    this.#logger = logger;
  }

  synced({ rendered }: Pick<SyncReport, "rendered">): void {
    for (const name of rendered) {
      const fields = this.#change(name);
      // The first sync brings every Service: a line for each would say nothing.
      if (fields !== undefined && !this.#isFirst) this.#log(name, fields);
    }
    this.#isFirst = false;
  }

  #log(name: ServiceName, fields: Readonly<Record<string, unknown>>): void {
    this.#window ??= this.#clock.after(WINDOW, () => this.#endWindow());
    if (this.#lines < MAX_LINES) this.#logger.info({ service: name, ...fields }, "programmed");
    else this.#others.add(name);
    this.#lines++;
  }

  #endWindow(): void {
    const others = this.#others.size;
    if (others > 0) this.#logger.info({ others }, `programmed, and ${counted(others, "other Service")}`);
    this.#others.clear();
    this.#lines = 0;
    this.#window = undefined;
  }

  /** Remembers a Service as it is now. @returns the fields of its change, undefined when nothing of it changed */
  #change(name: ServiceName): Readonly<Record<string, unknown>> | undefined {
    const before = this.#programmed.get(name);
    const service = this.#cache.service(name);
    if (service === undefined) {
      this.#programmed.delete(name);
      return before === undefined ? undefined : { change: "deleted" };
    }
    const slices = this.#cache.slices(name);
    const { ready, nodes } = readyEndpoints(slices);
    this.#programmed.set(name, { service, slices, ready });
    if (before === undefined) return { change: "added", ready, nodes };
    if (before.service !== service) return { change: "service", ready, nodes };
    return before.slices === slices ? undefined : { change: "endpoints", ready, was: before.ready, nodes };
  }
}

/**
 * Counts the distinct ready endpoints and the nodes that they are on. Endpoints of both families are mostly the same Pods,
 * so the family that has more of them counts.
 */
function readyEndpoints(slices: readonly EndpointSlice[]): { ready: number; nodes: number } {
  const addresses = byFamily(() => new Set<string>());
  const nodes = new Set<string>();
  for (const { family, endpoints } of slices) {
    for (const { address, nodeName } of endpoints.filter(({ ready }) => ready)) {
      addresses[family].add(address);
      nodes.add(nodeName);
    }
  }
  return { ready: Math.max(addresses.ip.size, addresses.ip6.size), nodes: nodes.size };
}
