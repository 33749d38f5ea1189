import type { Family } from "../base/family.ts";
import type { FeatureValues } from "./features.ts";
import type { Protocol, ServiceName } from "./ids.ts";

/** One entry of an EndpointSlice's `ports` that a proxy can use. */
export interface SlicePort {
  readonly name: string;
  readonly protocol: Protocol;
  /** 1..65535 */
  readonly port: number;
}

/** One entry of an EndpointSlice's `endpoints`, with defaults for absent conditions. */
export interface SliceEndpoint {
  /** The first address, canonical. The others have no meaning in Kubernetes. */
  readonly address: string;
  /** "" when not given. */
  readonly nodeName: string;
  readonly zone: string;
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
  /** `hints.forZones` (KEP-2433). */
  readonly zoneHints: readonly string[];
  /** `hints.forNodes` (KEP-3015). */
  readonly nodeHints: readonly string[];
  /** `namespace/name` of its Pod, "" when not given; for display only. */
  readonly pod: string;
}

/** The part of an EndpointSlice that rules depend on. Source: discovery.k8s.io/v1 EndpointSlice. */
export interface EndpointSlice {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** From the label `kubernetes.io/service-name`. */
  readonly service: ServiceName;
  readonly family: Family;
  readonly ports: readonly SlicePort[];
  readonly endpoints: SliceEndpoints;
  /** What annotations of features ask for; absent for nothing. */
  readonly features?: FeatureValues;
  /** The annotation `endpoints.kubernetes.io/last-change-trigger-time`, milliseconds; 0 when absent. */
  readonly lastChangeTriggerTime: number;
}

/**
 * The endpoints of an EndpointSlice, as text that takes less memory than their JSON. Anybody who may write
 * EndpointSlices can have millions of endpoints, which would fill the heap as objects. Iterating makes an
 * object for each; the next iterations take the same ones, unless the heap was collected meanwhile.
 */
export class SliceEndpoints implements Iterable<SliceEndpoint> {
  readonly length: number;
  // A line for each endpoint, or one if it is the same for all. Decoded texts contain no blanks. Not `#`
  // fields, because deep comparisons and JSON must see them.
  private readonly addresses: string;
  private readonly nodeNames: string;
  private readonly zones: string;
  private readonly conditions: string;
  private readonly zoneHints: string;
  private readonly nodeHints: string;
  private readonly pods: string;
  /** What iterating made last: a change of one slice reads all slices of the Service again. */
  #recent: WeakRef<readonly SliceEndpoint[]> | undefined;

  constructor(endpoints: readonly SliceEndpoint[]) {
    this.length = endpoints.length;
    const column = (textOf: (endpoint: SliceEndpoint) => string) => linesOf(endpoints.map(textOf));
    this.addresses = column(({ address }) => address);
    this.nodeNames = column(({ nodeName }) => nodeName);
    this.zones = column(({ zone }) => zone);
    this.conditions = column(conditionsText);
    this.zoneHints = column(({ zoneHints }) => hintsText(zoneHints));
    this.nodeHints = column(({ nodeHints }) => hintsText(nodeHints));
    this.pods = column(({ pod }) => pod);
  }

  [Symbol.iterator](): Iterator<SliceEndpoint> {
    return (this.#recent?.deref() ?? this.#readAgain())[Symbol.iterator]();
  }

  /** The names of the endpoints' nodes, with repetitions. */
  get nodes(): readonly string[] {
    return this.length === 0 ? [] : this.nodeNames.split("\n");
  }

  /** The number of endpoints on a node; 0 if its name is empty. */
  countOn(nodeName: string): number {
    const text = this.nodeNames;
    if (nodeName === "" || this.length === 0) return 0;
    if (!text.includes("\n")) return text === nodeName ? this.length : 0;
    let count = 0;
    // Without a string for each line: a Service may have millions of endpoints.
    for (let start = text.indexOf(nodeName); start !== -1; start = text.indexOf(nodeName, start + 1)) {
      const end = start + nodeName.length;
      if ((start === 0 || text[start - 1] === "\n") && (end === text.length || text[end] === "\n")) count++;
    }
    return count;
  }

  #readAgain(): readonly SliceEndpoint[] {
    const endpoints = this.#read();
    if (this.length > FEW) this.#recent = new WeakRef(endpoints);
    return endpoints;
  }

  #read(): readonly SliceEndpoint[] {
    const addresses = valuesOf(this.addresses);
    const nodeNames = valuesOf(this.nodeNames);
    const zones = valuesOf(this.zones);
    const conditions = valuesOf(this.conditions);
    const zoneHints = valuesOf(this.zoneHints);
    const nodeHints = valuesOf(this.nodeHints);
    const pods = valuesOf(this.pods);
    const endpoints: SliceEndpoint[] = [];
    for (let i = 0; i < this.length; i++) {
      const flags = valueAt(conditions, i);
      endpoints.push({
        address: valueAt(addresses, i),
        nodeName: valueAt(nodeNames, i),
        zone: valueAt(zones, i),
        ready: flags.includes("r"),
        serving: flags.includes("s"),
        terminating: flags.includes("t"),
        zoneHints: hintsOf(valueAt(zoneHints, i)),
        nodeHints: hintsOf(valueAt(nodeHints, i)),
        pod: valueAt(pods, i),
      });
    }
    return endpoints;
  }
}

/** Maximum number of endpoints that are read again each time: as fast as remembering them. */
const FEW = 16;

function linesOf(values: readonly string[]): string {
  const [first = ""] = values;
  return values.every((value) => value === first) ? first : values.join("\n");
}

/** A value for each endpoint, or one for all. */
function valuesOf(lines: string): string | readonly string[] {
  return lines.includes("\n") ? lines.split("\n") : lines;
}

function valueAt(values: string | readonly string[], index: number): string {
  return typeof values === "string" ? values : (values[index] ?? "");
}

/** All texts of conditions: making one for each endpoint would take a part of the time to decode it. */
const CONDITIONS = ["", "t", "s", "st", "r", "rt", "rs", "rst"] as const;

function conditionsText({ ready, serving, terminating }: SliceEndpoint): string {
  return CONDITIONS[4 * Number(ready) + 2 * Number(serving) + Number(terminating)] ?? "";
}

/** Shared to save time: most endpoints have no hints. */
const NO_HINTS: readonly string[] = [];

/** Each name after a blank: no name at all is not the same as an empty one. */
function hintsText(names: readonly string[]): string {
  return names.length === 0 ? "" : names.map((name) => ` ${name}`).join("");
}

function hintsOf(text: string): readonly string[] {
  return text === "" ? NO_HINTS : text.slice(1).split(" ");
}
