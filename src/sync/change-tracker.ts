import { messageOf } from "../base/errors.ts";
import type { Family } from "../base/family.ts";
import type { Logger } from "../base/logger.ts";
import type { ResourceName, SourceHandler, SourceHandlers } from "../kube/source.ts";
import { RESOURCE_NAMES } from "../kube/source.ts";
import type { EndpointSlice } from "../model/endpoint-slice.ts";
import type { Node } from "../model/node.ts";
import type { ObjectCache } from "../model/object-cache.ts";

/** What a feed tells of. */
export interface ChangeTrackerParts {
  readonly cache: ObjectCache;
  readonly logger: Logger;
  /** Something changed, and every resource has been given once. */
  readonly onChange: () => void;
  /** Our Node appeared or changed. */
  readonly onNode: (node: Node) => void;
}

/** A change of endpoints that the kernel does not have yet. */
export interface EndpointTrigger {
  readonly family: Family;
  /** When the cluster saw the reason for it, milliseconds since 1970. */
  readonly at: number;
}

/** How many changes came. */
export interface ChangeCount {
  /** Since the start. */
  total: number;
  /** Since the last sync. */
  unsynced: number;
}

/** More of these than anyone looks at; the rest of a storm would only cost memory. */
const MOST_TRIGGERS = 10_000;

/** Puts what a source gives into the object cache, and counts it. Tells of nothing before every resource was given once. */
export class ChangeTracker {
  readonly #parts: ChangeTrackerParts;
  readonly #waitingFor = new Set<ResourceName>(RESOURCE_NAMES);
  #triggers: EndpointTrigger[] = [];
  readonly #services: ChangeCount = { total: 0, unsynced: 0 };
  readonly #endpoints: ChangeCount = { total: 0, unsynced: 0 };

  constructor(parts: ChangeTrackerParts) {
    this.#parts = parts;
  }

  /** Changes of Services. */
  get services(): Readonly<ChangeCount> {
    return this.#services;
  }

  /** Changes of EndpointSlices. */
  get endpoints(): Readonly<ChangeCount> {
    return this.#endpoints;
  }

  /** A sync that began after the last change has succeeded. */
  synced(): void {
    this.#services.unsynced = 0;
    this.#endpoints.unsynced = 0;
  }

  /** The resources that have not been given yet. */
  get waitingFor(): readonly ResourceName[] {
    return [...this.#waitingFor];
  }

  /** Hands over the changes of endpoints since the last call. */
  takeTriggers(): EndpointTrigger[] {
    const triggers = this.#triggers;
    this.#triggers = [];
    return triggers;
  }

  /** Takes back what a sync that failed was given. */
  returnTriggers(triggers: readonly EndpointTrigger[]): void {
    this.#triggers = [...triggers, ...this.#triggers].slice(0, MOST_TRIGGERS);
  }

  /** What a source is to be given. */
  handlers(): SourceHandlers {
    const { cache } = this.#parts;
    return {
      services: this.#handler("services", {
        put: (service) => cache.putService(service),
        remove: ({ name }) => cache.deleteService(name),
        count: () => count(this.#services),
      }),
      endpointslices: this.#handler("endpointslices", {
        put: (slice, previous) => {
          cache.putSlice(slice, previous);
          this.#trigger(slice, previous);
        },
        remove: (slice) => cache.deleteSlice(slice),
        count: () => count(this.#endpoints),
      }),
      nodes: this.#handler("nodes", {
        put: (node) => {
          cache.putNode(node);
          this.#parts.onNode(node);
        },
        // A Node object deleted under a running kubelet comes back; what it said of this host stays true meanwhile.
        remove: () => {},
        count: () => {},
      }),
      servicecidrs: this.#handler("servicecidrs", {
        put: (serviceCIDR) => cache.putServiceCIDR(serviceCIDR),
        remove: ({ name }) => cache.deleteServiceCIDR(name),
        count: () => {},
      }),
    };
  }

  #handler<T>(
    resource: ResourceName,
    use: { put: (object: T, previous: T | undefined) => void; remove: (object: T) => void; count: () => void },
  ): SourceHandler<T> {
    return {
      onUpsert: (_key, object, previous) => {
        use.put(object, previous);
        use.count();
        this.#changed();
      },
      onDelete: (_key, previous) => {
        use.remove(previous);
        use.count();
        this.#changed();
      },
      onInvalid: (key, error) => {
        this.#parts.logger.warn({ resource, object: key, error: messageOf(error) }, "object left out: it is not valid");
      },
      onSynced: () => {
        if (!this.#waitingFor.delete(resource)) return;
        this.#parts.logger.info({ resource, waitingFor: this.waitingFor }, "resource synced");
        this.#changed();
      },
    };
  }

  #changed(): void {
    if (this.#waitingFor.size === 0) this.#parts.onChange();
  }

  /** A slice's first sight is no change of endpoints: its time may be long ago. */
  #trigger({ family, triggeredAt }: EndpointSlice, previous: EndpointSlice | undefined): void {
    const isNew = triggeredAt > 0 && this.#waitingFor.size === 0 && triggeredAt !== previous?.triggeredAt;
    if (isNew && this.#triggers.length < MOST_TRIGGERS) this.#triggers.push({ family, at: triggeredAt });
  }
}

function count(changes: ChangeCount): void {
  changes.total++;
  changes.unsynced++;
}
