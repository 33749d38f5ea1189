import type { HostFiles } from "../../kernel/host.ts";
import type { KernelSetting } from "../../kernel/sysctl.ts";
import type { Settings } from "../../ruleset/node-context.ts";

/**
 * What the daemon does: nothing, count connections with what the kernel tells of them, or also make the
 * kernel count bytes and times.
 */
export const MODES = ["off", "connections", "accounting"] as const;

export type Mode = (typeof MODES)[number];

export function modeOf(settings: Settings): Mode {
  return (settings as { readonly observe?: Mode }).observe ?? "off";
}

const pathOf = (name: string) => `/proc/sys/net/netfilter/nf_conntrack_${name}`;

/** The sysctls of the mode `accounting`. They only matter for connections that begin afterwards. */
export function accountingSettings(settings: Settings): readonly KernelSetting[] {
  if (modeOf(settings) !== "accounting") return [];
  return ["acct", "timestamp"].map((name) => ({ path: pathOf(name), value: 1, onlyRaise: true }));
}

/** What the kernel does not tell of connections while one of its sysctls is off. */
const LACKS = {
  events: "no connection is reported",
  acct: "bytes are not counted",
  timestamp: "durations are unknown",
};

type SysctlName = keyof typeof LACKS;

/** The sysctls that are off in this network namespace. */
export type Lacking = readonly SysctlName[];

/** Reads the sysctls. One that cannot be read counts as on, as the figures then show whether it is. */
export async function readLacking(files: HostFiles): Promise<Lacking> {
  const off: SysctlName[] = [];
  for (const name of Object.keys(LACKS) as SysctlName[])
    if ((await files.read(pathOf(name)).catch(() => "1")).trim() === "0") off.push(name);
  return off;
}

/** Whether the kernel counts bytes or knows times. */
export function hasFigures(lacking: Lacking): boolean {
  return !(lacking.includes("acct") && lacking.includes("timestamp"));
}

/** Says what the kernel does not tell while a sysctl is off. */
export function lackText(name: SysctlName): string {
  return `${LACKS[name]}: nf_conntrack_${name} is off`;
}

/** As {@link lackText}, and how to switch the sysctl on. */
export function lackAdvice(name: SysctlName): string {
  const orDaemon = name === "events" ? "" : ", or run the daemon with --observe=accounting";
  return `${lackText(name)} (sysctl -w net.netfilter.nf_conntrack_${name}=1${orDaemon})`;
}
