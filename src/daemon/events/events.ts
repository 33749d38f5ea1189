import type { FeatureEvent } from "../../features/seam/daemon-part.ts";
import type { ServiceName } from "../../model/ids.ts";
import type { ObjectCache } from "../../model/object-cache.ts";

/** The object of an Event. */
export interface EventSubject {
  readonly kind: "Node" | "Service";
  /** "" for a Node. */
  readonly namespace: string;
  readonly name: string;
  /** "" if unknown. */
  readonly uid: string;
}

/** Returns our Node, from the object cache. */
export function nodeSubject({ node: { name, uid } }: Pick<ObjectCache, "node">): EventSubject {
  return { kind: "Node", namespace: "", name, uid };
}

/** Returns a Service, with its uid if the object cache has it. */
export function serviceSubject(cache: Pick<ObjectCache, "service">, service: ServiceName): EventSubject {
  const [namespace = "", name = ""] = service.split("/");
  return { kind: "Service", namespace, name, uid: cache.service(service)?.uid ?? "" };
}

/** A message to the cluster's operators. */
export interface EventNote extends FeatureEvent {
  readonly type: "Normal" | "Warning";
  readonly regarding: EventSubject;
}

/** The API server's maximum length of a note. Bytes. */
const NOTE_LIMIT = 1024;

/** Its maximum lengths of other fields. Characters. */
const NAME_LIMIT = 253;
const INSTANCE_LIMIT = 128;

/** A warning, as almost all Events are. */
export function warning(regarding: EventSubject, reason: string, action: string, note: string): EventNote {
  return { type: "Warning", reason, action, note, regarding };
}

/** The origin of an Event: its time, its reporter, and an id for its name. */
export interface EventOrigin {
  /** `reportingInstance`: this node. */
  readonly instance: string;
  /** Unique in the cluster: at most 100 lower-case letters and digits. */
  readonly id: string;
  /** Milliseconds since 1970. */
  readonly at: number;
}

/** Returns the namespace of an Event: that of its object; by convention "default" for a Node. */
export function eventNamespace({ namespace }: EventSubject): string {
  return namespace === "" ? "default" : namespace;
}

/** Cuts an Event to the length that is sent. Repetitions are recognised by the result. */
export function boundedEvent(event: EventNote): EventNote {
  const note = truncate(event.note, NOTE_LIMIT);
  return event.clusterKey === undefined
    ? { ...event, note }
    : { ...event, note, clusterKey: truncate(event.clusterKey, NOTE_LIMIT) };
}

/** Makes an Event of the API group events.k8s.io/v1. */
export function eventObject(event: EventNote, { instance, id, at }: EventOrigin) {
  const { kind, namespace, name, uid } = event.regarding;
  return {
    apiVersion: "events.k8s.io/v1",
    kind: "Event",
    metadata: {
      name: eventName(name, id),
      namespace: eventNamespace(event.regarding),
    },
    eventTime: microTime(at),
    reportingController: "nft-proxy",
    reportingInstance: instance.slice(0, INSTANCE_LIMIT),
    type: event.type,
    reason: event.reason,
    action: event.action,
    note: boundedEvent(event).note,
    regarding: {
      apiVersion: "v1",
      kind,
      name,
      ...(namespace === "" ? {} : { namespace }),
      ...(uid === "" ? {} : { uid }),
    },
  };
}

/** Makes a name from those of the object, shortened if too long, and the id. */
function eventName(subject: string, id: string): string {
  return `${subject.slice(0, NAME_LIMIT - id.length - 1).replace(/[.-]+$/, "")}.${id}`;
}

/**
 * Makes the patch for a repeated Event. Nothing else of an Event may change.
 * @param count at least 2
 * @param lastAt milliseconds since 1970
 */
export function seriesPatch(count: number, lastAt: number) {
  return { series: { count, lastObservedTime: microTime(lastAt) } };
}

/** Formats a metav1.MicroTime, which has exactly six digits. */
function microTime(milliseconds: number): string {
  return new Date(milliseconds).toISOString().replace("Z", "000Z");
}

/** Cuts a text to `bytes` bytes of UTF-8, between characters. */
function truncate(text: string, bytes: number): string {
  const encoded = Buffer.from(text);
  if (encoded.length <= bytes) return text;
  let end = bytes - 3;
  while (((encoded[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return `${encoded.toString("utf8", 0, end)}...`;
}
