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

/** What the kernel tells of connections in this network namespace. */
export interface Accounting {
  /** Whether it reports connections at all. */
  readonly events: boolean;
  readonly bytes: boolean;
  readonly times: boolean;
}

/** Reads the sysctls. One that cannot be read counts as on, as the figures then show whether it is. */
export async function readAccounting(files: HostFiles): Promise<Accounting> {
  const isOn = async (name: string) => (await files.read(pathOf(name)).catch(() => "1")).trim() !== "0";
  return { events: await isOn("events"), bytes: await isOn("acct"), times: await isOn("timestamp") };
}

/** Something that the kernel does not tell. */
export interface AccountingWarning {
  readonly text: string;
  /** How to switch it on. */
  readonly advice: string;
}

/** A warning with its advice. */
export function adviceText({ text, advice }: AccountingWarning): string {
  return `${text} (${advice})`;
}

/** Lists what the kernel does not tell. */
export function accountingWarnings({ events, bytes, times }: Accounting): AccountingWarning[] {
  const on = (name: string) => `sysctl -w net.netfilter.nf_conntrack_${name}=1`;
  const orDaemon = (name: string) => `${on(name)}, or run the daemon with --observe=accounting`;
  const warnings = [
    { isOn: events, text: "no connection is reported: nf_conntrack_events is off", advice: on("events") },
    { isOn: bytes, text: "bytes are not counted: nf_conntrack_acct is off", advice: orDaemon("acct") },
    {
      isOn: times,
      text: "durations are unknown: nf_conntrack_timestamp is off",
      advice: orDaemon("timestamp"),
    },
  ];
  return warnings.filter(({ isOn }) => !isOn).map(({ text, advice }) => ({ text, advice }));
}
