import { listText, listTextOf } from "../../base/text.ts";
import type { FeatureEvent } from "../../features/seam/daemon-part.ts";
import type { ResourceName } from "../../kube/source.ts";
import type { ServiceName } from "../../model/ids.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { IgnoredAnnotation } from "../../model/service.ts";
import { frontendText } from "../../ruleset/keys.ts";
import { conflictSides, type LostFrontend } from "../../ruleset/lost-frontends.ts";
import type { FeatureBudgetParts } from "../../ruleset/node-context.ts";

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

/** The proxy starts; kube-proxy's Event. */
export function startingEvent(node: EventSubject): EventNote {
  return { type: "Normal", reason: "Starting", action: "StartKubeProxy", note: "", regarding: node };
}

function warning(regarding: EventSubject, reason: string, action: string, note: string): EventNote {
  return { type: "Warning", reason, action, note, regarding };
}

/** A server cannot bind its address; kube-proxy's Events. @param problem the address and the reason */
export function failedServerEvent(
  node: EventSubject,
  server: "healthz" | "metrics",
  problem: string,
): EventNote {
  const reason = server === "healthz" ? "FailedToStartProxierHealthcheck" : "FailedToStartMetricServer";
  return warning(node, reason, "StartKubeProxy", problem);
}

/** The daemon cannot listen on the health check node port of a Service; kube-proxy's Event. */
export function failedHealthPortEvent(
  service: EventSubject,
  port: number,
  node: string,
  problem: string,
): EventNote {
  const name = `${service.namespace}/${service.name}`;
  const note = `node ${node} failed to start healthcheck "${name}" on port ${port}: ${problem}`;
  return warning(service, "FailedToStartServiceHealthcheck", "Listen", note);
}

/** The daemon cannot listen on a NodePort of a Service at a loopback address, and retries. */
export function failedLoopbackEvent(
  service: EventSubject,
  port: number,
  node: string,
  problem: string,
): EventNote {
  const note = `node ${node} cannot serve NodePort ${port} on loopback, retrying: ${problem}`;
  return warning(service, "FailedToListenLocalhostNodePort", "Listen", note);
}

/** A list of the API server lacks all known objects. It has no effect until it is repeated for a minute. */
export function implausibleListEvent(resource: ResourceName): EventNote {
  const regarding = { kind: "Service", namespace: "default", name: "kubernetes", uid: "" } as const;
  const note = `the list of ${resource} lacks all known objects, even default/kubernetes; the rules are kept unless the API server repeats this list for a minute: check its database`;
  return { ...warning(regarding, "ImplausibleList", "List", note), clusterKey: resource };
}

/** Another program changed our rules, and they were repaired. @param found describes the drift */
export function driftRepairedEvent(node: EventSubject, found: string): EventNote {
  const note = `another program changed the rules on node ${node.name}, which have been repaired: ${found}`;
  return warning(node, "RulesRepaired", "Repair", note);
}

/** A service port has no rules; all others have theirs. @param problem the reason */
export function quarantineEvent(
  service: EventSubject,
  port: string,
  node: string,
  problem: string,
): EventNote {
  const note = `node ${node} has no rules for ${port}, which is quarantined: ${problem}`;
  return warning(service, "ServicePortQuarantined", "Sync", note);
}

/** Service ports are served without a feature, on all nodes. @param servicePorts as text */
export function reducedEvent(
  { text, event }: FeatureBudgetParts,
  service: EventSubject,
  servicePorts: string,
  reason: string,
): EventNote {
  const note = `${servicePorts} is served without ${text}: ${reason}`;
  return { ...warning(service, event, "Sync", note), clusterKey: "budget" };
}

/** What a feature warns of about a Service. */
export function featureEvent(service: EventSubject, event: FeatureEvent): EventNote {
  return { type: "Warning", regarding: service, ...event };
}

/**
 * A Service lost addresses and ports to others. The note does not name a single one, so that the next one
 * that the same port loses to the same winner repeats the Event.
 */
export function conflictEvent(service: EventSubject, lost: readonly LostFrontend[]): EventNote {
  const { losers, winners } = conflictSides(lost);
  const name = `${service.namespace}/${service.name}`;
  const frontends = listTextOf(lost, ({ frontend }) => frontendText(frontend));
  const have = winners.length === 1 ? "has" : "have";
  const [count, which] = lost.length === 1 ? ["one", ""] : [lost.length, `: ${frontends}`];
  const note = `${listText(losers)} is not served at ${count} of its addresses and ports, which ${listText(winners)} ${have}${which}; change one of these Services (nft-proxy explain ${name} lists all)`;
  // Nodes may find several in different syncs, so the numbers differ.
  const clusterKey = [...losers, ...winners].join(" ");
  return { ...warning(service, "AddressConflict", "Sync", note), clusterKey };
}

/** An annotation of a Service is invalid, or its feature is off. */
export function ignoredAnnotationEvent(
  service: EventSubject,
  { annotation, event, reason, consequence }: IgnoredAnnotation,
): EventNote {
  const note = `${annotation} ${reason}: ${consequence}`;
  return { ...warning(service, event, "Sync", note), clusterKey: note };
}

/** Affinity entries of the service port with the most were deleted, as the map was nearly full. */
export function affinityCrowdedEvent(service: EventSubject, servicePort: string, node: string): EventNote {
  const note = `some clients of ${servicePort}, the port with the most clients, lost their endpoint because the affinity map of node ${node} was nearly full: raise --affinity-map-size or lower --max-affinity-timeout`;
  return warning(service, "AffinityMapNearlyFull", "Sync", note);
}

/** A sync failed; it is retried. */
export function failedSyncEvent(node: EventSubject, problem: string): EventNote {
  const note = `the rules on node ${node.name} are not updated, retrying: ${problem}`;
  return warning(node, "SyncFailed", "Sync", note);
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
