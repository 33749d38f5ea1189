import { randomUUID } from "node:crypto";
import type { Clock } from "../../base/clock.ts";
import { messageOf } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import type { ServiceName } from "../../model/ids.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { EventRecorder, type EventSink } from "./event-recorder.ts";
import {
  type EventSubject,
  failedHealthPortEvent,
  failedLoopbackNodePortEvent,
  failedServerEvent,
  refusedEvent,
} from "./events.ts";

/** What Events are made with. */
export interface EventChannelParts {
  readonly sink: EventSink;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly cache: ObjectCache;
}

/** The recorder of Events, and the subjects that they are about as the object cache knows them. */
export class EventChannel {
  readonly recorder: EventRecorder;
  readonly #parts: EventChannelParts;
  /** Whether a failure to send was logged as a warning: there may be many, and each is counted. */
  #isWarned = false;

  constructor(parts: EventChannelParts) {
    const { sink, clock, logger, metrics, cache } = parts;
    this.#parts = parts;
    this.recorder = new EventRecorder({
      sink,
      clock,
      instance: cache.node.name,
      makeId: () => randomUUID().replaceAll("-", ""),
      onDropped: ({ reason, note }, error) => {
        metrics.own.eventsDropped.inc();
        if (error === undefined || this.#isWarned) return logger.debug({ reason, note }, "Event not delivered");
        this.#isWarned = true;
        logger.warn({ reason, error: messageOf(error) }, "Event not delivered (further ones are logged at -v=4)");
      },
    });
  }

  /** Our Node. */
  node(): EventSubject {
    const { name, uid } = this.#parts.cache.node;
    return { kind: "Node", namespace: "", name, uid };
  }

  /** A Service, with its uid while it is known. */
  service(service: ServiceName): EventSubject {
    const [namespace = "", name = ""] = service.split("/");
    return { kind: "Service", namespace, name, uid: this.#parts.cache.service(service)?.uid ?? "" };
  }

  /** One of the two servers cannot bind its address. */
  serverFailed(server: "healthz" | "metrics", error: unknown): void {
    this.recorder.record(failedServerEvent(this.node(), server, messageOf(error)));
  }

  /** A NodePort cannot be bound at a loopback address. */
  loopbackNodePortFailed(service: ServiceName, port: number, error: unknown): void {
    const nodeName = this.#parts.cache.node.name;
    this.recorder.record(failedLoopbackNodePortEvent(this.service(service), port, nodeName, messageOf(error)));
  }

  /** The health check node port of a Service cannot be bound. */
  healthPortFailed(service: ServiceName, port: number, error: unknown): void {
    const problem = messageOf(error);
    this.recorder.record(failedHealthPortEvent(this.service(service), port, this.#parts.cache.node.name, problem));
  }

  /** Connections to a Service were refused. */
  refused(service: ServiceName, summary: string): void {
    this.recorder.record(refusedEvent(this.service(service), this.#parts.cache.node.name, summary));
  }
}
