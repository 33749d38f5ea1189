import { FAMILIES, type Family } from "../base/family.ts";
import type { Protocol } from "../model/ids.ts";
import { familyOf } from "../model/ip.ts";
import type { FlowEnd } from "../netlink/flow.ts";
import type { HostFiles } from "./host.ts";
import { type StreamLines, streamLines } from "./stream-lines.ts";

/** A connection (for UDP, a flow) that the kernel tracks. */
export interface TrackedConnection {
  readonly protocol: Protocol;
  /**
   * State in lower case (`established`, `time_wait`); for UDP `unreplied`, `replied` or `assured`;
   * `offloaded` while a flow table forwards the packets.
   */
  readonly state: string;
  readonly client: FlowEnd;
  /** The address that the client connected to. */
  readonly destination: FlowEnd;
  /** The server that answers: the destination, unless it was translated. */
  readonly replySource: FlowEnd;
  /** Seconds until the kernel deletes the entry if no packet arrives; undefined while offloaded. */
  readonly remaining: number | undefined;
}

/**
 * Matches the fields before the reply's, the reply's, and the flags, as printed by `conntrack -L` (1.4.8).
 */
const ENTRY =
  /^(tcp|udp|sctp) +\d+ (?:(\d+) )?(?:([A-Z][A-Z_\d]*) )?src=(\S+) dst=(\S+) sport=(\d+) dport=(\d+) .*?src=(\S+) dst=\S+ sport=(\d+) dport=\d+(.*)$/;

/** Parses a line of `conntrack -L`; undefined if it is not a TCP, UDP or SCTP connection. */
export function parseConnection(line: string): TrackedConnection | undefined {
  const match = ENTRY.exec(line);
  if (match === null) return undefined;
  const [, protocol, remaining, state, source, destination, sourcePort, port, replySource, replyPort, flags] =
    match;
  if (source === undefined || destination === undefined || replySource === undefined) return undefined;
  return {
    protocol: protocol as Protocol,
    state: stateOf(state, line, flags ?? ""),
    client: { address: source, port: Number(sourcePort) },
    destination: { address: destination, port: Number(port) },
    replySource: { address: replySource, port: Number(replyPort) },
    remaining: remaining === undefined ? undefined : Number(remaining),
  };
}

function stateOf(state: string | undefined, line: string, flags: string): string {
  if (state !== undefined) return state.toLowerCase();
  if (flags.includes("OFFLOAD]")) return "offloaded";
  if (flags.includes("[ASSURED]")) return "assured";
  return line.includes("[UNREPLIED]") ? "unreplied" : "replied";
}

/**
 * Returns conntrack's arguments for one family. Without them, conntrack before 1.4.7 lists only IPv4. Source:
 * {@link https://lore.kernel.org/netfilter-devel/20201027133255.24498-1-pablo@netfilter.org/ the change of
 * the default}
 */
function familyArguments(family: Family): readonly string[] {
  return ["-f", family === "ip" ? "ipv4" : "ipv6"];
}

/** The program of conntrack-tools. */
const CONNTRACK = "conntrack";

/**
 * Yields every tracked connection of both families with a translated destination.
 * @param client yield only connections of this client address
 * @throws AppError HOST if conntrack (conntrack-tools) is missing or fails
 */
export async function* translatedConnections(
  client?: string,
  stream: StreamLines = streamLines,
): AsyncIterable<TrackedConnection> {
  const filter = client === undefined ? [] : ["--orig-src", client];
  for (const family of client === undefined ? FAMILIES : [familyOf(client)]) {
    for await (const line of stream(CONNTRACK, ["-L", ...familyArguments(family), "--dst-nat", ...filter])) {
      const connection = parseConnection(line);
      if (connection !== undefined) yield connection;
    }
  }
}

/** The kernel's timeouts, seconds, by file name after `nf_conntrack_`; absent if there is no such file. */
export type ConntrackTimeouts = ReadonlyMap<string, number>;

const TIMEOUTS: readonly string[] = [
  ..."syn_sent syn_recv established fin_wait close_wait last_ack time_wait close unacknowledged max_retrans"
    .split(" ")
    .map((state) => `tcp_timeout_${state}`),
  "udp_timeout",
  "udp_timeout_stream",
  ..."closed cookie_wait cookie_echoed established shutdown_sent shutdown_recd shutdown_ack_sent heartbeat_sent"
    .split(" ")
    .map((state) => `sctp_timeout_${state}`),
];

/**
 * Reads the timeouts of this network namespace. Source: nf_conntrack-sysctl in the kernel's documentation.
 */
export async function conntrackTimeouts(files: HostFiles): Promise<ConntrackTimeouts> {
  const timeouts = new Map<string, number>();
  for (const name of TIMEOUTS) {
    const text = await files.read(`/proc/sys/net/netfilter/nf_conntrack_${name}`).catch(() => "");
    if (/^\d+\s*$/.test(text)) timeouts.set(name, Number(text));
  }
  return timeouts;
}

/** The time since the last packet of a connection. */
export interface Idleness {
  /** Seconds since its last packet. */
  readonly seconds: number;
  /** Whether its last data have been unacknowledged for at least 2 seconds: the other end may be gone. */
  readonly unacknowledged: boolean;
}

/**
 * Computes how long a connection has been silent from the remaining time of its timeout, which every packet
 * restarts. Unacknowledged data have a shorter timeout of their own (nf_conntrack_proto_tcp.c). So an
 * established connection with less time left than that counts as waiting, although one that has been silent
 * for days may look the same.
 * @returns undefined if the timeout is not known
 */
export function idleness(
  { protocol, state, remaining }: Pick<TrackedConnection, "protocol" | "state" | "remaining">,
  timeouts: ConntrackTimeouts,
): Idleness | undefined {
  const full = timeouts.get(timeoutName(protocol, state));
  if (remaining === undefined || full === undefined) return undefined;
  const waiting = protocol === "tcp" ? waitingTimeout(timeouts) : undefined;
  if (waiting !== undefined && full > waiting && remaining <= waiting) {
    const seconds = waiting - remaining;
    return { seconds, unacknowledged: seconds >= 2 };
  }
  return { seconds: Math.max(full - remaining, 0), unacknowledged: false };
}

function timeoutName(protocol: Protocol, state: string): string {
  if (protocol === "udp") return state === "assured" ? "udp_timeout_stream" : "udp_timeout";
  return `${protocol}_timeout_${state === "syn_sent2" ? "syn_sent" : state}`;
}

function waitingTimeout(timeouts: ConntrackTimeouts): number | undefined {
  const [unacknowledged, retransmitted] = [
    timeouts.get("tcp_timeout_unacknowledged"),
    timeouts.get("tcp_timeout_max_retrans"),
  ];
  if (unacknowledged === undefined || retransmitted === undefined) return unacknowledged ?? retransmitted;
  return Math.max(unacknowledged, retransmitted);
}
