import type { Clock } from "../base/clock.ts";
import { messageOf } from "../base/errors.ts";
import type { Family } from "../base/family.ts";
import type { Logger } from "../base/logger.ts";
import { ObjectProblemLog } from "../kube/object-problem-log.ts";
import {
  RESOURCE_NAMES,
  type ResourceName,
  type SourceHandler,
  type SourceHandlers,
} from "../kube/source.ts";
import type { EndpointSlice } from "../model/endpoint-slice.ts";
import type { ServiceName } from "../model/ids.ts";
import type { Node } from "../model/node.ts";
import type { ObjectCache } from "../model/object-cache.ts";

/** Parts of a {@link ChangeTracker}. */
export interface ChangeTrackerParts {
  readonly cache: ObjectCache;
  readonly clock: Clock;
  readonly logger: Logger;
  /**
   * Called for each change after all {@link FirstSyncCondition} conditions are met, and when the last one is.
   */
  readonly onChange: () => void;
  /**
   * Rules depend on the podCIDRs of our Node (`detectLocalMode: NodeCIDR`), which a controller may assign
   * late.
   */
  readonly awaitsPodCIDRs: boolean;
}

/**
 * A condition for the first sync: the first list of a resource, or the podCIDRs where rules depend on them.
 */
export type FirstSyncCondition = ResourceName | "podCIDRs";

/**
 * Maximum time from the first list of Nodes until podCIDRs are given up, milliseconds. Kube-proxy waits as
 * long (waitForPodCIDR in cmd/kube-proxy/app/server_linux.go).
 */
const POD_CIDRS_TIMEOUT = 300_000;

/**
 * When the cluster saw the reason for a change of endpoints (the annotation
 * endpoints.kubernetes.io/last-change-trigger-time).
 */
export interface ChangeTriggerTime {
  readonly family: Family;
  /** Milliseconds: monotonic in {@link Changes}, since 1970 in a `SyncReport`. */
  readonly at: number;
}

/** The times of a change that arrived after the first lists. */
export interface ChangeTimes {
  /** Absent for objects that concern all Services. */
  readonly service?: ServiceName | undefined;
  /** Milliseconds on the monotonic clock. */
  readonly receivedAt: number;
  /** Absent if the object has none, or the same as before. */
  readonly trigger?: ChangeTriggerTime | undefined;
}

/**
 * The changes since the last sync, as {@link ChangeTracker.take} hands them to the next one. Times are on the
 * monotonic clock.
 */
export interface Changes {
  /** Services that changed, themselves or in their slices. */
  readonly services: ReadonlySet<ServiceName>;
  readonly times: readonly ChangeTimes[];
  /** Numbers of changes, with those of earlier syncs that failed or left Services waiting. */
  readonly counts: Readonly<Record<"services" | "endpoints", number>>;
}

/** Numbers of received changes. */
export interface ChangeCount {
  /** Since the start. */
  total: number;
  /** Changes that no sync has brought to the kernel yet. */
  unsynced: number;
}

/**
 * Age to which older trigger times are cut, milliseconds: the clocks of the cluster and our own may be wrong.
 */
const MAX_TRIGGER_AGE = 3_600_000;

/** Maximum number of changes whose times are kept, so that a storm of changes does not exhaust memory. */
const MAX_TIMES = 10_000;

/**
 * Takes the objects of a source into the {@link ObjectCache} and tracks their changes until a sync takes
 * them. The cache holds the objects and knows which Services are dirty; only this class takes its dirty
 * Services. Changes are announced once every resource has been listed, so that nothing is programmed from
 * half of a cluster.
 */
export class ChangeTracker {
  readonly #parts: ChangeTrackerParts;
  readonly #waitingFor = new Set<FirstSyncCondition>(RESOURCE_NAMES);
  #times: ChangeTimes[] = [];
  readonly #serviceChanges: ChangeCount = { total: 0, unsynced: 0 };
  readonly #endpointChanges: ChangeCount = { total: 0, unsynced: 0 };
  readonly serviceChanges: Readonly<ChangeCount> = this.#serviceChanges;
  readonly endpointChanges: Readonly<ChangeCount> = this.#endpointChanges;
  readonly #invalid: ObjectProblemLog;
  #nodeLacks: readonly string[] = [];

  constructor(parts: ChangeTrackerParts) {
    this.#parts = parts;
    this.#invalid = new ObjectProblemLog(parts.clock, parts.logger, "invalid object ignored");
    if (parts.awaitsPodCIDRs) this.#waitingFor.add("podCIDRs");
  }

  /** The fields that our Node lost, and whose last known values are used: `addresses`, `podCIDRs`, `zone`. */
  get nodeLacks(): readonly string[] {
    return this.#nodeLacks;
  }

  /** The conditions for the first sync that are not met yet. */
  get waitingFor(): readonly FirstSyncCondition[] {
    return [...this.#waitingFor];
  }

  /** Hands over the changes since the last call. */
  take(): Changes {
    const times = this.#times;
    this.#times = [];
    // Not reset: `synced` subtracts these.
    const counts = { services: this.#serviceChanges.unsynced, endpoints: this.#endpointChanges.unsynced };
    return { services: this.#parts.cache.takeDirty(), times, counts };
  }

  /**
   * Puts back the times of a sync that failed. Its Services stay with the reconciler, which has rendered
   * them.
   */
  putBack(times: Changes["times"]): void {
    this.#times = [...times, ...this.#times].slice(0, MAX_TIMES);
  }

  /**
   * Subtracts the changes of a successful sync from the counts if nothing waits, and puts back the times of
   * waiting Services.
   * @param waiting Services whose rules the sync has not brought to the kernel completely
   * @returns the times of the others
   */
  synced({ counts, times }: Changes, waiting: ReadonlySet<ServiceName>): Changes["times"] {
    if (waiting.size === 0) {
      this.#serviceChanges.unsynced -= counts.services;
      this.#endpointChanges.unsynced -= counts.endpoints;
      return times;
    }
    const waits = ({ service }: ChangeTimes) => service !== undefined && waiting.has(service);
    this.putBack(times.filter(waits));
    return times.filter((one) => !waits(one));
  }

  /** The handlers to give to a source. */
  handlers(): SourceHandlers {
    const { cache } = this.#parts;
    return {
      services: this.#handler("services", {
        put: (service) => cache.putService(service),
        remove: ({ name }) => cache.deleteService(name),
        count: this.#serviceChanges,
        serviceOf: ({ name }) => name,
      }),
      endpointslices: this.#handler("endpointslices", {
        put: (slice, previous) => cache.putSlice(slice, previous),
        remove: (slice) => cache.deleteSlice(slice),
        count: this.#endpointChanges,
        serviceOf: ({ service }) => service,
        triggerOf: (slice, previous) => this.#triggerOf(slice, previous),
      }),
      nodes: this.#handler("nodes", {
        put: (node) => {
          this.#putNode(node);
          // `#handler` announces the change afterwards.
          if (Object.values(cache.node.podCIDRs).some((cidrs) => cidrs.length > 0))
            this.#waitingFor.delete("podCIDRs");
        },
        // A running kubelet recreates a deleted Node object; meanwhile, its last state still describes this
        // host.
        remove: () => {},
      }),
      servicecidrs: this.#handler("servicecidrs", {
        put: (serviceCIDR) => cache.putServiceCIDR(serviceCIDR),
        remove: ({ name }) => cache.deleteServiceCIDR(name),
      }),
    };
  }

  /** Warns once while our Node lacks what it had before. */
  #putNode(node: Node): void {
    const { cache, logger } = this.#parts;
    const before = this.#nodeLacks.join();
    // Undefined for another node's object.
    this.#nodeLacks = cache.putNode(node) ?? this.#nodeLacks;
    const lacks = this.#nodeLacks.join();
    if (lacks === before) return;
    if (lacks === "") logger.info({ node: node.name }, "our Node is complete again");
    else
      logger.warn({ node: node.name, lacks }, "our Node lacks what it had: the last known values are used");
  }

  #handler<T>(
    resource: ResourceName,
    use: {
      put: (object: T, previous: T | undefined) => void;
      remove: (object: T) => void;
      count?: ChangeCount;
      serviceOf?: (object: T) => ServiceName;
      triggerOf?: (object: T, previous: T | undefined) => ChangeTriggerTime | undefined;
    },
  ): SourceHandler<T> {
    return {
      onUpsert: (key, object, previous) => {
        this.#invalid.end(`${resource} ${key}`);
        use.put(object, previous);
        this.#received(use.count, use.serviceOf?.(object), use.triggerOf?.(object, previous));
      },
      onDelete: (_key, previous) => {
        use.remove(previous);
        this.#received(use.count, use.serviceOf?.(previous));
      },
      onInvalid: (key, error) => {
        const reason = messageOf(error);
        this.#invalid.add(`${resource} ${key}`, reason, { resource, object: key, error: reason });
      },
      onSynced: () => {
        if (!this.#waitingFor.delete(resource)) return;
        const { clock, logger } = this.#parts;
        logger.info({ resource, waitingFor: this.waitingFor }, "resource synced");
        if (resource === "nodes" && this.#waitingFor.has("podCIDRs"))
          clock.after(POD_CIDRS_TIMEOUT, () => this.#giveUpOnPodCIDRs());
        this.#announce();
      },
    };
  }

  /**
   * Counts a change. For the first lists no times are kept: how long these take is measured elsewhere, and
   * their trigger times may be long ago.
   */
  #received(
    count: ChangeCount | undefined,
    service: ServiceName | undefined,
    trigger?: ChangeTriggerTime,
  ): void {
    if (count !== undefined) {
      count.total++;
      count.unsynced++;
    }
    if (this.#waitingFor.size === 0 && this.#times.length < MAX_TIMES)
      this.#times.push({ service, receivedAt: this.#parts.clock.monotonic(), trigger });
    this.#announce();
  }

  /** Unlike kube-proxy, which exits: rules without podCIDRs are better than none. */
  #giveUpOnPodCIDRs(): void {
    if (!this.#waitingFor.delete("podCIDRs")) return;
    const hint =
      "traffic of pods cannot be distinguished from other traffic; assign podCIDRs, or use another detectLocalMode";
    this.#parts.logger.warn({ hint }, "the Node has no podCIDRs after 5 minutes: programming without them");
    this.#announce();
  }

  #announce(): void {
    if (this.#waitingFor.size === 0) this.#parts.onChange();
  }

  #triggerOf(
    { family, lastChangeTriggerTime }: EndpointSlice,
    previous: EndpointSlice | undefined,
  ): ChangeTriggerTime | undefined {
    if (lastChangeTriggerTime <= 0 || lastChangeTriggerTime === previous?.lastChangeTriggerTime)
      return undefined;
    const { clock } = this.#parts;
    const age = Math.min(Math.max(0, clock.now() - lastChangeTriggerTime), MAX_TRIGGER_AGE);
    return { family, at: clock.monotonic() - age };
  }
}
