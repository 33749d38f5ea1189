import { listText, listTextOf, quoted } from "../../base/text.ts";
import type { ResourceName } from "../../kube/source.ts";
import type { ServiceName } from "../../model/ids.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import { SCHEDULER_ANNOTATION, SCHEDULERS } from "../../model/scheduler.ts";
import { PORT_RANGES_ANNOTATION } from "../../model/service.ts";
import { FEATURE_NAMES, type Feature } from "../../ruleset/feature-budget.ts";
import { frontendText } from "../../ruleset/keys.ts";
import type { LostFrontend } from "../../ruleset/lost-frontends.ts";

/** The object that an Event is about. */
export interface EventSubject {
  readonly kind: "Node" | "Service";
  /** "" for a Node. */
  readonly namespace: string;
  readonly name: string;
  /** "" when it is not known. */
  readonly uid: string;
}

/** Our Node, as the object cache knows it. */
export function nodeSubject({ node: { name, uid } }: Pick<ObjectCache, "node">): EventSubject {
  return { kind: "Node", namespace: "", name, uid };
}

/** A Service, with its uid while the object cache knows it. */
export function serviceSubject(cache: Pick<ObjectCache, "service">, service: ServiceName): EventSubject {
  const [namespace = "", name = ""] = service.split("/");
  return { kind: "Service", namespace, name, uid: cache.service(service)?.uid ?? "" };
}

/** A message to the cluster's operators. */
export interface EventNote {
  readonly type: "Normal" | "Warning";
  /** Why, in a word for scripts: kube-proxy's where it has one. */
  readonly reason: string;
  /** What was being done. */
  readonly action: string;
  /** For people. */
  readonly note: string;
  readonly regarding: EventSubject;
  /**
   * Set where many nodes find the same of the subject: the words, beside the reason, that are alike on all of them. One Event
   * in the cluster is enough while it lasts (an hour by default), where a thousand nodes would send a thousand.
   */
  readonly clusterKey?: string;
}

/** The most that the API server takes of a note, in bytes, and of other fields, in characters. */
const NOTE_LIMIT = 1024;
const NAME_LIMIT = 253;
const INSTANCE_LIMIT = 128;

/** The proxy has started: kube-proxy's Event. */
export function startingEvent(node: EventSubject): EventNote {
  return { type: "Normal", reason: "Starting", action: "StartKubeProxy", note: "", regarding: node };
}

function warning(regarding: EventSubject, reason: string, action: string, note: string): EventNote {
  return { type: "Warning", reason, action, note, regarding };
}

/** One of the two servers cannot bind its address: kube-proxy's Events. `problem` names the address and the reason. */
export function failedServerEvent(
  node: EventSubject,
  server: "healthz" | "metrics",
  problem: string,
): EventNote {
  const reason = server === "healthz" ? "FailedToStartProxierHealthcheck" : "FailedToStartMetricServer";
  return warning(node, reason, "StartKubeProxy", problem);
}

/** The health check node port of a Service cannot be listened on: kube-proxy's Event. */
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

/** The NodePort of a Service cannot be bound at a loopback address; it is retried. */
export function failedLoopbackEvent(
  service: EventSubject,
  port: number,
  node: string,
  problem: string,
): EventNote {
  const note = `node ${node} cannot serve NodePort ${port} on loopback, retrying: ${problem}`;
  return warning(service, "FailedToListenLocalhostNodePort", "Listen", note);
}

/** A list of the API server has none of the objects that are known; it changes nothing until it is repeated for a minute. */
export function implausibleListEvent(resource: ResourceName): EventNote {
  const regarding = { kind: "Service", namespace: "default", name: "kubernetes", uid: "" } as const;
  const note = `the API server lists ${resource} without any known one, not even default/kubernetes; the rules stay unless it is repeated for a minute`;
  return { ...warning(regarding, "ImplausibleList", "List", note), clusterKey: resource };
}

/** Our rules were changed by someone else and repaired. `found` describes the drift. */
export function driftRepairedEvent(node: EventSubject, found: string): EventNote {
  const note = `the rules on node ${node.name} were changed by someone else and have been repaired: ${found}`;
  return warning(node, "RulesRepaired", "Repair", note);
}

/** A service port has no rules, for the reason given; all others are programmed. */
export function quarantineEvent(
  service: EventSubject,
  port: string,
  node: string,
  problem: string,
): EventNote {
  const note = `node ${node} cannot program ${port}, which is quarantined: ${problem}`;
  return warning(service, "ServicePortQuarantined", "Sync", note);
}

/** Service ports are served without a feature, for the reason given: all nodes find the same. */
export function reducedEvent(
  feature: Feature,
  service: EventSubject,
  servicePorts: string,
  reason: string,
): EventNote {
  const note = `${servicePorts} is served without ${FEATURE_NAMES[feature]}: ${reason}`;
  return { ...warning(service, FEATURE_REASONS[feature], "Sync", note), clusterKey: "budget" };
}

const FEATURE_REASONS: Readonly<Record<Feature, string>> = {
  affinity: "SessionAffinityNotKept",
  ranges: "PortRangesNotServed",
};

/** A service port lost an address and port to another. `winner` is a service port's name. */
export function contestedEvent(service: EventSubject, servicePort: string, winner: string): EventNote {
  const note = `${servicePort} conflicts with ${winner}, which has the same address and port`;
  return { ...warning(service, "AddressConflict", "Sync", note), clusterKey: note };
}

/** A Service lost several addresses and ports to others: one Event for all of them. */
export function contestedServiceEvent(service: EventSubject, lost: readonly LostFrontend[]): EventNote {
  const winners = [...new Set(lost.map(({ winner }) => winner.service.name))].sort();
  const name = `${service.namespace}/${service.name}`;
  const frontends = listTextOf(lost, ({ frontend }) => frontendText(frontend));
  const have = winners.length === 1 ? "has" : "have";
  const note = `${name} conflicts with ${listText(winners)}, which ${have} ${lost.length} of its addresses and ports: ${frontends}; nft-proxy explain ${name} lists all`;
  // What nodes lose in one sync may differ, and so the numbers.
  return { ...warning(service, "AddressConflict", "Sync", note), clusterKey: winners.join(" ") };
}

/** The annotation of a Service names a scheduler that does not exist. */
export function unknownSchedulerEvent(service: EventSubject, given: string): EventNote {
  const note = `${SCHEDULER_ANNOTATION} must be ${SCHEDULERS.join(", ")}, not ${quoted(given)}: random is used`;
  return { ...warning(service, "UnknownScheduler", "Sync", note), clusterKey: note };
}

/** The annotation of a Service gives ranges of ports that cannot be served. `reason` is the predicate of a sentence. */
export function invalidPortRangesEvent(service: EventSubject, reason: string): EventNote {
  const note = `${PORT_RANGES_ANNOTATION} ${reason}: no range is served`;
  return { ...warning(service, "InvalidPortRanges", "Sync", note), clusterKey: note };
}

/** No node serves ranges of ports, and the annotation of a Service gives some. */
export function portRangesOffEvent(service: EventSubject): EventNote {
  const note = `${PORT_RANGES_ANNOTATION} is ignored: --port-ranges is off`;
  return { ...warning(service, "PortRangesNotServed", "Sync", note), clusterKey: "off" };
}

/** A Service has addresses of a node, at which its ranges of ports are not served: the first node that reports it. */
export function localPortRangesEvent(
  service: EventSubject,
  node: string,
  addresses: readonly string[],
): EventNote {
  const note = `node ${node}, and possibly others, does not serve ${PORT_RANGES_ANNOTATION} at its own address ${listText(addresses)}: see --port-ranges`;
  return { ...warning(service, "PortRangesNotServed", "Sync", note), clusterKey: "local" };
}

/** Connections to a Service were refused or dropped: the first node that reports it. `summary` says how many, and why. */
export function refusedEvent(service: EventSubject, node: string, summary: string): EventNote {
  const note = `node ${node}, and possibly others, refused or dropped ${summary}; run \`nft-proxy refusals\` there to list clients`;
  return { ...warning(service, "ConnectionsRefused", "Refuse", note), clusterKey: "" };
}

/** Clients of a service port were forgotten, as it has the most and the map of all was nearly full. */
export function affinityCrowdedEvent(service: EventSubject, servicePort: string, node: string): EventNote {
  const note = `node ${node} forgot the endpoints of some clients of ${servicePort}, which has the most of all: its affinity map was nearly full (--affinity-map-size, --max-affinity-timeout)`;
  return warning(service, "AffinityMapNearlyFull", "Sync", note);
}

/** A sync failed; it is retried. */
export function failedSyncEvent(node: EventSubject, problem: string): EventNote {
  return warning(node, "SyncFailed", "Sync", problem);
}

/** The origin of an Event: its time, its reporter and what makes its name unique. */
export interface EventOrigin {
  /** `reportingInstance`: this node. */
  readonly instance: string;
  /** Makes the name unique in the cluster: lower-case letters and digits, at most 100. */
  readonly id: string;
  /** Milliseconds since 1970. */
  readonly at: number;
}

/** How often something has happened since its Event was made. */
export interface EventSeries {
  /** At least 2. */
  readonly count: number;
  /** Milliseconds since 1970. */
  readonly lastAt: number;
}

/** The namespace of an Event: its subject's; "default" for a Node, as everyone does it. */
export function eventNamespace({ namespace }: EventSubject): string {
  return namespace === "" ? "default" : namespace;
}

/** What of an Event is sent: repetitions are known by it, and what objects say can be long. */
export function boundedEvent(event: EventNote): EventNote {
  const note = truncate(event.note, NOTE_LIMIT);
  return event.clusterKey === undefined
    ? { ...event, note }
    : { ...event, note, clusterKey: truncate(event.clusterKey, NOTE_LIMIT) };
}

/** An Event of the API group events.k8s.io/v1, as the API server takes it. */
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

/** The subject's name, shortened where the API server would not take it, and the id. */
function eventName(subject: string, id: string): string {
  return `${subject.slice(0, NAME_LIMIT - id.length - 1).replace(/[.-]+$/, "")}.${id}`;
}

/** The change of an Event that has happened again. Nothing else of an Event may change. */
export function seriesPatch({ count, lastAt }: EventSeries) {
  return { series: { count, lastObservedTime: microTime(lastAt) } };
}

/** metav1.MicroTime is read with exactly six digits. */
function microTime(milliseconds: number): string {
  return new Date(milliseconds).toISOString().replace("Z", "000Z");
}

/** As many whole characters of `text` as fit into `bytes` bytes of UTF-8. */
function truncate(text: string, bytes: number): string {
  const encoded = Buffer.from(text);
  if (encoded.length <= bytes) return text;
  let end = bytes - 3;
  while (((encoded[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return `${encoded.toString("utf8", 0, end)}...`;
}
