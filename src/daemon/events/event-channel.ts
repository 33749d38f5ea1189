import { randomUUID } from "node:crypto";
import type { Clock } from "../../base/clock.ts";
import { messageOf } from "../../base/errors.ts";
import { FailureLog } from "../../base/failure-log.ts";
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

  constructor(parts: EventChannelParts) {
    const { sink, clock, logger, metrics, cache } = parts;
    this.#parts = parts;
    this.recorder = new EventRecorder({
      sink: loggedSink(sink, logger, clock),
      clock,
      instance: cache.node.name,
      makeId: () => randomUUID().replaceAll("-", ""),
      onDropped: ({ reason, note }) => {
        metrics.own.eventsDropped.inc();
        logger.debug({ reason, note }, "Event not delivered");
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

/** A sink that logs why it cannot deliver Events. */
function loggedSink(sink: EventSink, logger: Logger, clock: Clock): EventSink {
  const failed = "the API server does not take Events";
  const failures = new FailureLog(logger, clock, failed, "the API server takes Events again");
  return {
    send: async (...call) => {
      try {
        await sink.send(...call);
        failures.end();
      } catch (error) {
        failures.add(messageOf(error));
        throw error;
      }
    },
  };
}
