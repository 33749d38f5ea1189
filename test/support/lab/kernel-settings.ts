import type { MachineName } from "./topology.ts";

/** A value for a file under `/proc/sys/net`. Older kernels may lack an optional one. */
export interface KernelSetting {
  readonly path: string;
  readonly value: string;
  readonly optional?: true;
}

const everywhere: readonly KernelSetting[] = [
  { path: "ipv6/conf/all/accept_dad", value: "0" },
  { path: "ipv6/conf/default/accept_dad", value: "0" },
];

// Refusals are ICMP errors here. If the kernel suppressed one, the probe would look dropped. After Linux 6.12
// the message rate became a setting of each namespace. Before, it was 1000 a second for the whole machine.
const forwarding: readonly KernelSetting[] = [
  { path: "ipv4/ip_forward", value: "1" },
  { path: "ipv6/conf/all/forwarding", value: "1" },
  { path: "ipv4/icmp_ratelimit", value: "0" },
  { path: "ipv6/icmp/ratelimit", value: "0" },
  { path: "ipv4/icmp_msgs_per_sec", value: "100000", optional: true },
  { path: "ipv4/icmp_msgs_burst", value: "100000", optional: true },
];

/** The kernel settings of a machine, to be set before it gets addresses. */
export function kernelSettings(machine: MachineName): readonly KernelSetting[] {
  return machine === "node" || machine === "node2" ? [...everywhere, ...forwarding] : everywhere;
}
