import type { Flow } from "../../kernel/conntrack.ts";
import type { HostFiles } from "../../kernel/host.ts";

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
export type Idleness = NonNullable<ReturnType<typeof idleness>>;

/**
 * Computes how long a connection has been silent from the remaining time of its timeout, which every packet
 * restarts. While data are unacknowledged, a shorter timeout applies (nf_conntrack_proto_tcp.c). So an
 * established connection with less time left than this shorter timeout counts as unacknowledged. One that
 * has been silent for days can look the same.
 * @returns the seconds since its last packet, and whether its last data have been unacknowledged for at least
 * 2 seconds: the other end may be gone. Undefined if the timeout is not known
 */
export function idleness(
  { protocol, state, remaining }: Pick<Flow, "protocol" | "state" | "remaining">,
  timeouts: ConntrackTimeouts,
) {
  const full = timeouts.get(timeoutName(protocol, state));
  if (remaining === undefined || full === undefined) return undefined;
  const waiting = protocol === "tcp" ? waitingTimeout(timeouts) : undefined;
  if (waiting !== undefined && full > waiting && remaining <= waiting) {
    const seconds = waiting - remaining;
    return { seconds, unacknowledged: seconds >= 2 };
  }
  return { seconds: Math.max(full - remaining, 0), unacknowledged: false };
}

function timeoutName(protocol: Flow["protocol"], state: string): string {
  if (protocol === "udp") return state === "assured" ? "udp_timeout_stream" : "udp_timeout";
  return `${protocol}_timeout_${state === "syn_sent2" ? "syn_sent" : state}`;
}

/** The timeout while data are unacknowledged or sent again. */
function waitingTimeout(timeouts: ConntrackTimeouts): number | undefined {
  const names = ["tcp_timeout_unacknowledged", "tcp_timeout_max_retrans"];
  const known = names.flatMap((name) => timeouts.get(name) ?? []);
  return known.length === 0 ? undefined : Math.max(...known);
}
