import { conntrackDefaults } from "../../base/conntrack-defaults.ts";
import { durationText, parseDuration } from "../../base/duration.ts";
import type { ConntrackSettings } from "../../kernel/sysctl.ts";
import type { Protocol } from "../../model/ids.ts";
import { parseNamedValues, type ValueRange } from "../../model/named-values.ts";
import type { Service } from "../../model/service.ts";

/** The name of the feature. */
export const FEATURE = "connection-timeouts";

/** The annotation of a Service that sets how long conntrack remembers its idle connections. */
export const CONNECTION_TIMEOUTS_ANNOTATION = "nft-proxy.io/connection-timeouts";

/** A state of conntrack with a timeout. The kernel also has those of SCTP, which nft (1.1.7) cannot set. */
interface TimedState {
  readonly protocol: Extract<Protocol, "tcp" | "udp">;
  /** nft's word. */
  readonly state: string;
  /** Maximum, seconds. */
  readonly most: number;
}

/**
 * The kernel's longest default. With it, no connection stays longer in the node's conntrack table, which all
 * Services share, than one without the annotation. Seconds.
 */
const LONGEST = 432_000;

/**
 * Maximum for connections that begin or end: the time that kube-proxy lets a closing connection wait.
 * Seconds.
 */
const LONGEST_END = 3600;

/** The timeouts by name, as in the kernel's settings (`nf_conntrack_tcp_timeout_close_wait`). */
export const TIMED_STATES = {
  "tcp-syn-sent": { protocol: "tcp", state: "syn_sent", most: LONGEST_END },
  "tcp-syn-recv": { protocol: "tcp", state: "syn_recv", most: LONGEST_END },
  "tcp-established": { protocol: "tcp", state: "established", most: LONGEST },
  "tcp-fin-wait": { protocol: "tcp", state: "fin_wait", most: LONGEST_END },
  "tcp-close-wait": { protocol: "tcp", state: "close_wait", most: LONGEST_END },
  "tcp-last-ack": { protocol: "tcp", state: "last_ack", most: LONGEST_END },
  "tcp-time-wait": { protocol: "tcp", state: "time_wait", most: LONGEST_END },
  "tcp-close": { protocol: "tcp", state: "close", most: LONGEST_END },
  "tcp-max-retrans": { protocol: "tcp", state: "retrans", most: LONGEST_END },
  "tcp-unacknowledged": { protocol: "tcp", state: "unack", most: LONGEST_END },
  udp: { protocol: "udp", state: "unreplied", most: LONGEST_END },
  "udp-stream": { protocol: "udp", state: "replied", most: LONGEST },
} as const satisfies Readonly<Record<string, TimedState>>;

/** The name of a timeout. */
export type TimeoutName = keyof typeof TIMED_STATES;

/** Every name, in the order in which timeouts are written. */
export const TIMEOUT_NAMES = Object.keys(TIMED_STATES) as readonly TimeoutName[];

/** Timeouts in seconds; absent ones are the node's own. */
export type ConnectionTimeouts = Readonly<Partial<Record<TimeoutName, number>>>;

/** Hours, minutes and seconds: conntrack counts whole seconds. */
const DURATION = /^(?:\d{1,7}[hms])+$/;

const RULE = 'must be a list such as "tcp-established=2h,udp-stream=5m"';

/** The valid values in seconds, from 1: the kernel ends a connection with a timeout of 0 immediately. */
const RANGES = Object.fromEntries(
  TIMEOUT_NAMES.map((name) => [name, rangeTo(TIMED_STATES[name].most)]),
) as Readonly<Record<TimeoutName, ValueRange>>;

function rangeTo(most: number): ValueRange {
  const read = (text: string) => (DURATION.test(text) ? (parseDuration(text) ?? 0) / 1000 : undefined);
  return { read, least: 1, most, limits: `1s to ${most / 3600}h` };
}

/** Parses a list such as `tcp-established=2h,udp-stream=5m`. */
export function parseConnectionTimeouts(text: string) {
  return parseNamedValues(text, RULE, RANGES);
}

/** The kernel's defaults. Seconds. */
export const KERNEL_TIMEOUTS = Object.fromEntries(
  TIMEOUT_NAMES.map((name) => {
    const { protocol, state } = TIMED_STATES[name];
    return [name, conntrackDefaults(protocol)[state]];
  }),
) as Readonly<Record<TimeoutName, number>>;

/**
 * The connection timeouts on a node in seconds: the kernel's defaults, and those that the proxy's options
 * replace. Other settings of an administrator (sysctl) are unknown.
 */
export function nodeTimeouts(conntrack: ConntrackSettings): Readonly<Record<TimeoutName, number>> {
  const milliseconds: Partial<Record<TimeoutName, number>> = {
    "tcp-established": conntrack.tcpEstablishedTimeoutMs,
    "tcp-close-wait": conntrack.tcpCloseWaitTimeoutMs,
    udp: conntrack.udpTimeoutMs,
    "udp-stream": conntrack.udpStreamTimeoutMs,
  };
  const seconds = Object.entries(milliseconds)
    .map(([name, ms]) => [name, Math.min(Math.floor(ms / 1000), MOST_SECONDS)] as const)
    .filter(([, replaced]) => replaced > 0);
  return { ...KERNEL_TIMEOUTS, ...Object.fromEntries(seconds) };
}

/** Maximum that the kernel can hold: it counts in 32 bits of up to 1,000 ticks a second. */
const MOST_SECONDS = 4_000_000;

/** The timeouts that a Service asks for; undefined for none. */
export function connectionTimeoutsOf({
  features,
}: Pick<Service, "features">): ConnectionTimeouts | undefined {
  return features?.[FEATURE] as ConnectionTimeouts | undefined;
}

/** Formats timeouts: `tcp-established=2h,udp-stream=5m`. */
export function connectionTimeoutsText(timeouts: ConnectionTimeouts): string {
  return Object.entries(timeouts)
    .map(([name, seconds]) => `${name}=${durationText(seconds)}`)
    .join(",");
}

/** The timeouts of a protocol; undefined for none. */
export function timeoutsOfProtocol(
  timeouts: ConnectionTimeouts | undefined,
  protocol: Protocol,
): ConnectionTimeouts | undefined {
  if (timeouts === undefined) return undefined;
  const own = Object.entries(timeouts).filter(
    ([name]) => TIMED_STATES[name as TimeoutName].protocol === protocol,
  );
  return own.length === 0 ? undefined : Object.fromEntries(own);
}
