import type { Clock, Timer } from "../base/clock.ts";
import { byFamily } from "../base/family.ts";
import type { Logger } from "../base/logger.ts";
import { counted } from "../base/text.ts";
import type { EndpointSlice } from "../model/endpoint-slice.ts";
import type { ServiceName } from "../model/ids.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import type { Service } from "../model/service.ts";
import type { SyncReport, SyncSubscriber } from "../sync/sync-report.ts";

/** Maximum number of Services named in one window. The others are counted at its end. */
const MAX_LINES = 20;

/** Length of a window, milliseconds. */
const WINDOW = 10_000;

/** Maximum number of endpoints in a Service's slices for which a line says how many are ready. */
const MOST_COUNTED = 20_000;

/** A Service when it was last programmed. */
interface Programmed {
  readonly service: Service;
  readonly slices: readonly EndpointSlice[];
}

type Change = "added" | "deleted" | "service" | "endpoints";

/** Logs a line for each Service that a sync changed. Beyond a maximum, Services are only counted. */
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
      const before = this.#programmed.get(name);
      const change = this.#change(name, before);
      // The first sync adds all Services.
      if (change !== undefined && !this.#isFirst) this.#log(name, change, before?.slices ?? []);
    }
    this.#isFirst = false;
  }

  /** Counts endpoints only for a line that is written. */
  #log(name: ServiceName, change: Change, before: readonly EndpointSlice[]): void {
    this.#window ??= this.#clock.after(WINDOW, () => this.#endWindow());
    if (this.#lines < MAX_LINES) {
      const counts = change === "deleted" ? undefined : readyEndpoints(this.#cache.slices(name));
      const was = counts && change === "endpoints" ? readyEndpoints(before)?.ready : undefined;
      const { ready, nodes } = counts ?? {};
      this.#logger.info({ service: name, change, ready, was, nodes }, "programmed");
    } else this.#others.add(name);
    this.#lines++;
  }

  #endWindow(): void {
    const others = this.#others.size;
    if (others > 0) this.#logger.info({ others }, `programmed, and ${counted(others, "other Service")}`);
    this.#others.clear();
    this.#lines = 0;
    this.#window = undefined;
  }

  /**
   * Stores the current state of a Service.
   * @returns how it changed; undefined if it did not
   */
  #change(name: ServiceName, before: Programmed | undefined): Change | undefined {
    const service = this.#cache.service(name);
    if (service === undefined) {
      this.#programmed.delete(name);
      return before === undefined ? undefined : "deleted";
    }
    const slices = this.#cache.slices(name);
    this.#programmed.set(name, { service, slices });
    if (before === undefined) return "added";
    if (before.service !== service) return "service";
    return isSame(before.slices, slices) ? undefined : "endpoints";
  }
}

/** Compares slices one by one: the cache makes a new list for a Service with no slice or with many. */
function isSame(before: readonly EndpointSlice[], after: readonly EndpointSlice[]): boolean {
  return before.length === after.length && before.every((slice, index) => slice === after[index]);
}

/**
 * Counts distinct ready endpoints and their nodes. Both families mostly have the same Pods, so the number of
 * the larger one counts. Undefined if there are too many to count.
 */
function readyEndpoints(slices: readonly EndpointSlice[]): { ready: number; nodes: number } | undefined {
  if (slices.reduce((sum, { endpoints }) => sum + endpoints.length, 0) > MOST_COUNTED) return undefined;
  const addresses = byFamily(() => new Set<string>());
  const nodes = new Set<string>();
  for (const { family, endpoints } of slices) {
    for (const { address, nodeName, ready } of endpoints) {
      if (!ready) continue;
      addresses[family].add(address);
      nodes.add(nodeName);
    }
  }
  return { ready: Math.max(addresses.ip.size, addresses.ip6.size), nodes: nodes.size };
}
