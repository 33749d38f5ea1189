import { durationText } from "../../base/duration.ts";
import { counted, socketText } from "../../base/text.ts";
import type { FlowCounts, FlowEnd } from "../../kernel/conntrack.ts";
import { targetText } from "../../nft/elements.ts";
import type { ExplainedRefusal } from "../seam/command.ts";
import type { Observation } from "./observer.ts";
import type { Summary, Traffic, TrafficByName } from "./summary.ts";

/** An end of a connection, with its pod (`namespace/name`) if an EndpointSlice names it; "" otherwise. */
interface NamedEnd extends FlowEnd {
  readonly pod: string;
}

/** The line of a connection. @param podOf the pod of a client's address, "" if unknown */
export function connectionLine(
  observed: Observation,
  format: string,
  podOf: (address: string) => string,
): string {
  const record = recordOf(observed, podOf);
  return format === "json" ? JSON.stringify(record) : connectionText(record, format === "wide");
}

/** The JSON of a connection: see schemas/observe.schema.json. */
function recordOf(observed: Observation, podOf: (address: string) => string) {
  const { event, flow, port, endpoint, condition, at, durationMs } = observed;
  const { protocol, client, destination, replySource, replyDestination, state, sent, received } = flow;
  const time = event === "open" ? flow.startedAt : at;
  const { pod = "", nodeName: node = "" } = endpoint?.source ?? {};
  const isMasqueraded = replyDestination.address !== client.address || replyDestination.port !== client.port;
  return {
    event,
    ...(time !== undefined && { time: new Date(time).toISOString() }),
    protocol,
    client: { ...client, pod: podOf(client.address) },
    destination,
    service: port.service.name,
    servicePort: port.spec.name,
    endpoint: { ...replySource, pod, node, condition },
    ...(isMasqueraded && { masqueradedAs: replyDestination }),
    ...(event === "open" && { state }),
    ...(durationMs !== undefined && { seconds: Math.round(durationMs) / 1000 }),
    ...(event !== "began" && sent && { sent }),
    ...(event !== "began" && received && { received }),
  };
}

/** @param isWide with all addresses, packets and the endpoint's node */
function connectionText(record: ReturnType<typeof recordOf>, isWide: boolean): string {
  const { event, time, protocol, client, destination, service, servicePort, endpoint, state } = record;
  const { masqueradedAs: source, seconds, sent, received } = record;
  const name = ({ pod, address, port }: NamedEnd) => {
    const socket = socketText(address, port);
    if (pod === "") return socket;
    return isWide ? `${pod} (${socket})` : pod;
  };
  const to = isWide ? ` (${socketText(destination.address, destination.port)}/${protocol})` : "";
  const details = [
    ...(isWide && endpoint.node !== "" ? [`on ${endpoint.node}`] : []),
    ...(endpoint.condition === "ready" ? [] : [endpoint.condition]),
    ...(isWide && source ? [`as ${socketText(source.address, source.port)}`] : []),
  ].map((text) => `, ${text}`);
  const figures = [
    ...(state === undefined ? [] : [state]),
    ...(seconds === undefined ? [] : [seconds < 60 ? `${seconds} s` : durationText(seconds)]),
    ...(sent === undefined ? [] : [`${countsText(sent, isWide)} sent`]),
    ...(received === undefined ? [] : [`${countsText(received, isWide)} received`]),
  ];
  const port = `${service} port ${servicePort || destination.port}`;
  const head = `${timeText(time)} ${event} ${name(client)} to ${port}${to}, endpoint ${name(endpoint)}`;
  return `${head}${details.join("")}${figures.length === 0 ? "" : `: ${figures.join(", ")}`}`;
}

function timeText(time: string | undefined): string {
  return time?.slice(11, 23) ?? "-";
}

function countsText({ bytes, packets }: FlowCounts, isWide: boolean): string {
  return isWide ? `${bytes} B in ${counted(packets, "packet")}` : `${bytes} B`;
}

/** The lines of refused packets, one for each client. */
export function refusalLines(refusal: ExplainedRefusal, format: string): string[] {
  const { address, port, protocol, service, servicePort, clients, cause, message } = refusal;
  return clients.map(({ packets, lastAt, ...client }) => {
    if (format === "json")
      return JSON.stringify({
        event: "refused",
        time: lastAt,
        protocol,
        client,
        destination: { address, port },
        ...(service !== undefined && { service, servicePort }),
        packets,
        cause,
        message,
      });
    const name = client.pod === "" ? client.address : client.pod;
    const own = format === "wide" && client.pod !== "" ? `${name} (${client.address})` : name;
    const socket = `${socketText(address, port)}/${protocol}`;
    const of = service === undefined ? "" : `${service} port ${servicePort || port}`;
    const to = of === "" ? socket : format === "wide" ? `${of} (${socket})` : of;
    return `${timeText(lastAt)} refused ${own} to ${to}: ${counted(packets, "packet")}: ${message}`;
  });
}

/** The line about lines that were omitted. */
export function omittedLine(count: number, format: string): string {
  if (format === "json") return JSON.stringify({ event: "omitted", lines: count });
  return `... ${counted(count, "more line")} omitted (--rate prints more)`;
}

/** What the summary says besides its counts. */
export interface Extent {
  /** Milliseconds of observation; undefined for a list of open connections. */
  readonly tookMs: number | undefined;
  /** Lines beyond the rate. */
  readonly omitted: number;
  /** Connections to no Service. */
  readonly others: number;
  readonly withoutFigures: number;
  /** Why figures could not be read, the last time; absent if they always could. */
  readonly figuresFailure?: string | undefined;
  /** Changes of connections that the kernel dropped. */
  readonly dropped: number;
}

/** The lines of the summary. */
export function summaryLines(
  summary: Summary,
  extent: Extent,
  format: string,
  podOf: (address: string) => string,
): string[] {
  const tops = LISTS.map((name) => [name, summary[name].top()] as const);
  const { events, refusedPackets } = summary;
  if (format === "json") {
    const { tookMs, ...unseen } = extent;
    const lists = tops.map(([name, top]) => [
      name,
      top.map(([id, of]) => ({ name: nameOf(name, id), ...of })),
    ]);
    const seconds = tookMs === undefined ? {} : { seconds: Math.round(tookMs) / 1000 };
    const counts = { events: Object.fromEntries(events), refusedPackets };
    return [
      JSON.stringify({ event: "summary", ...seconds, ...counts, ...unseen, ...Object.fromEntries(lists) }),
    ];
  }
  const how = [...events].map(([event, count]) => `${count} ${event}`).join(", ");
  const when = extent.tookMs === undefined ? "" : ` in ${durationText(extent.tookMs / 1000)}`;
  return [
    `connections: ${how === "" ? "none" : how}; ${counted(refusedPackets, "packet")} refused${when}`,
    ...unseenLines(extent),
    ...tops.flatMap(([name, top]) => topLines(name, top, summary[name], podOf)),
  ];
}

const LISTS = ["services", "clients", "endpoints"] as const;

function nameOf(list: (typeof LISTS)[number], id: string): string {
  return list === "endpoints" ? targetText(id) : id;
}

function unseenLines({ omitted, others, withoutFigures, figuresFailure, dropped }: Extent): string[] {
  const why = figuresFailure === undefined ? "" : `; reading them failed: ${figuresFailure}`;
  const texts = [
    ...(omitted > 0 ? [`${counted(omitted, "line")} omitted by --rate, but counted here`] : []),
    ...(others > 0 ? [`${counted(others, "connection")} to no Service not shown`] : []),
    ...(withoutFigures > 0 ? [`${counted(withoutFigures, "connection")} ended without figures${why}`] : []),
    ...(dropped > 0 ? [`${counted(dropped, "notification")} lost: the kernel's buffer was full`] : []),
  ];
  return texts.map((text) => `  ${text}`);
}

function topLines(
  list: (typeof LISTS)[number],
  top: readonly (readonly [string, Traffic])[],
  { size, rest }: TrafficByName,
  podOf: (address: string) => string,
): string[] {
  if (top.length === 0) return [];
  const line = (name: string, { connections, sent, received }: Traffic) =>
    `    ${name}: ${counted(connections, "connection")}, ${sent} B sent, ${received} B received`;
  const pod = (name: string) => (list === "clients" ? podOf(name) : "");
  return [
    `  most active ${list}${size > top.length ? ` of ${size}` : ""}:`,
    ...top.map(([id, of]) => line(`${nameOf(list, id)} ${pod(id)}`.trimEnd(), of)),
    ...(rest === undefined || rest.connections === 0 ? [] : [line("others", rest)]),
  ];
}
