import type { ServiceName } from "../../model/ids.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { SyncReport, SyncSubscriber } from "../../sync/sync-report.ts";
import type { EventChannel } from "./event-channel.ts";
import { unknownSchedulerEvent } from "./events.ts";

/** Reports Services whose annotation names no scheduler, once for each value. */
export class SchedulerEvents implements SyncSubscriber {
  readonly #cache: ObjectCache;
  readonly #events: EventChannel;
  readonly #reported = new Map<ServiceName, string>();

  constructor(cache: ObjectCache, events: EventChannel) {
    this.#cache = cache;
    this.#events = events;
  }

  synced({ rendered }: SyncReport): void {
    for (const name of rendered) {
      const given = this.#cache.service(name)?.unknownScheduler;
      if (given === undefined) {
        this.#reported.delete(name);
      } else if (this.#reported.get(name) !== given) {
        this.#reported.set(name, given);
        this.#events.recorder.record(unknownSchedulerEvent(this.#events.service(name), given));
      }
    }
  }
}
