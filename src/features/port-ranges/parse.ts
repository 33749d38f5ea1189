import { didYouMean } from "../../base/nearest.ts";
import { listText, quoted } from "../../base/text.ts";
import type { Service, ServicePortSpec } from "../../model/service.ts";
import type { PortOfService } from "../../model/service-port.ts";
import type { PortInterval } from "../../ruleset/interval-frontends.ts";
import type { AnnotatedObject, Parsed } from "../seam/feature.ts";

/** The name of the feature. */
export const FEATURE = "port-ranges";

/** The annotation of a Service that gives its ports ranges: `rtp=10000-10999,sip=5070-5079`. */
export const PORT_RANGES_ANNOTATION = "nft-proxy.io/port-ranges";

/**
 * Maximum number of ranges of one Service: each is an element for each of its addresses, and several where
 * other ports cut it.
 */
const MOST_RANGES = 100;

const MOST_PORT = 65_535;

/**
 * Maximum number of ports among which a similar name is searched: with 8,000 ports, each version of a Service
 * would take half a second.
 */
const MOST_COMPARED = 100;

/** `rtp=10000-10999`, or `10000-10999` for the nameless port of a Service. */
const ENTRY = /^(?:([^=]*)=)?(\d{1,5})-(\d{1,5})$/;

/** The ports of the Service that has the annotation. */
type AnnotatedPorts = Pick<AnnotatedObject, "ports" | "invalidPorts">;

/** What the annotation of a Service asks for. */
interface PortRanges {
  /** By the name of a port: ascending, without overlaps; at least one. */
  readonly byPort: ReadonlyMap<string, readonly PortInterval[]>;
}

/** The ranges of a port of a Service, which lead to the same port of an endpoint; undefined for none. */
export function rangesOf({ service: { features }, spec: { name } }: Pick<PortOfService, "service" | "spec">) {
  return (features?.[FEATURE] as PortRanges | undefined)?.byPort.get(name);
}

/** Whether a port of a Service has ranges. */
export function hasPortRanges(service: Service): boolean {
  return service.ports.some((spec) => rangesOf({ service, spec }) !== undefined);
}

/**
 * Parses the ranges of a Service's ports. An annotation with a mistake is ignored as a whole, because half of
 * a set of ranges is useless. Ranges of invalid ports are not checked.
 */
export function parsePortRanges(text: string, { ports, invalidPorts }: AnnotatedPorts): Parsed {
  const entries = text.split(",");
  if (entries.length > MOST_RANGES)
    return { reason: `can have ${MOST_RANGES} ranges, and has ${entries.length}` };
  const found: (PortInterval & Pick<ServicePortSpec, "name" | "protocol">)[] = [];
  for (const entry of entries) {
    const [match, name = "", first, last] = ENTRY.exec(entry.trim()) ?? [];
    if (match === undefined)
      return { reason: `must be NAME=FIRST-LAST, or several with commas between, not ${quoted(entry)}` };
    const range = { first: Number(first), last: Number(last) };
    if (range.first < 1 || range.last < range.first || range.last > MOST_PORT) {
      const rule = `must have port ranges from 1 to ${MOST_PORT}, the smaller first`;
      return { reason: `${rule}, not ${quoted(entry)}` };
    }
    const port = ports.find((one) => one.name === name);
    if (port !== undefined) found.push({ ...range, name, protocol: port.protocol });
    else if (invalidPorts !== undefined && !invalidPorts.includes(name)) {
      const names = [...ports.map((one) => one.name), ...invalidPorts];
      return { reason: unknownPortReason(name, range, names) };
    }
  }
  found.sort((a, b) => a.first - b.first);
  for (const [index, one] of found.entries()) {
    const overlapped = found.find(
      (other, at) => at < index && other.protocol === one.protocol && other.last >= one.first,
    );
    if (overlapped !== undefined) {
      const both = `${entryText(overlapped)} and ${entryText(one)}`;
      return { reason: `must not have a port twice, as ${one.first} in ${both}` };
    }
  }
  const named = (name: string) =>
    found.filter((one) => one.name === name).map(({ first, last }) => ({ first, last }));
  const byPort = new Map(found.map(({ name }) => [name, named(name)]));
  return { value: { byPort } satisfies PortRanges };
}

function unknownPortReason(name: string, range: PortInterval, names: readonly string[]): string {
  if (name === "")
    return `must name a port before each range, such as ${entryText({ ...range, name: names[0] ?? "" })}`;
  const hint = names.length > MOST_COMPARED ? undefined : didYouMean(name, names);
  const known = names.every((one) => one === "")
    ? "its only port has no name"
    : `its ${names.length === 1 ? "port is" : "ports are"} ${listText(names)}`;
  return `names the port ${quoted(name)}, which the Service does not have: ${hint ?? known}`;
}

function entryText({ name, first, last }: PortInterval & Pick<ServicePortSpec, "name">): string {
  return `${name === "" ? "" : `${name}=`}${first}-${last}`;
}
