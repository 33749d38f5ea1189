import type { Logger } from "../base/logger.ts";
import type { ConntrackSettings } from "../model/conntrack-settings.ts";
import { type HostFiles, systemErrorCode } from "./host.ts";

/** One number in a file of /proc or /sys. */
export interface KernelSetting {
  readonly path: string;
  readonly value: number;
  /** Only ever made larger: an administrator who wants more of it keeps it. */
  readonly onlyRaise: boolean;
}

/** Where kube-proxy stops counting cores: at 320 bytes an entry, hosts of hundreds of cores would risk gigabytes. */
const MOST_ENTRIES_BY_CORES = 1_048_576;

/**
 * The settings that kube-proxy makes for its conntrack options on a host with that many cores, in its order: the
 * table's size, its buckets (a quarter of that), then the time-outs.
 */
export function conntrackSettings(options: ConntrackSettings, cores: number): KernelSetting[] {
  const max = conntrackMax(options, cores);
  const sysctl = (name: string, value: number, onlyRaise = false): KernelSetting[] =>
    value > 0 ? [{ path: `/proc/sys/net/netfilter/nf_conntrack_${name}`, value, onlyRaise }] : [];
  const hashsize = {
    path: "/sys/module/nf_conntrack/parameters/hashsize",
    value: Math.floor(max / 4),
    onlyRaise: true,
  };
  return [
    ...sysctl("max", max, true),
    ...(max > 0 ? [hashsize] : []),
    ...sysctl("tcp_timeout_established", seconds(options.tcpEstablishedTimeoutMs)),
    ...sysctl("tcp_timeout_close_wait", seconds(options.tcpCloseWaitTimeoutMs)),
    ...sysctl("tcp_be_liberal", options.tcpBeLiberal ? 1 : 0),
    ...sysctl("udp_timeout", seconds(options.udpTimeoutMs)),
    ...sysctl("udp_timeout_stream", seconds(options.udpStreamTimeoutMs)),
  ];
}

function conntrackMax({ maxPerCore, min }: ConntrackSettings, cores: number): number {
  if (maxPerCore <= 0) return 0;
  const scaled = maxPerCore * cores;
  return scaled > MOST_ENTRIES_BY_CORES ? MOST_ENTRIES_BY_CORES : Math.max(scaled, min);
}

function seconds(milliseconds: number): number {
  return Math.floor(milliseconds / 1000);
}

/**
 * Makes the settings that are not so already. Those that the host does not allow are left, and told of in one
 * warning for each reason. Resolves with the paths that could not be set: where conntrack is a module, it may be
 * loaded by our first rules only, so that a second try after them succeeds.
 */
export async function applySettings(
  files: HostFiles,
  settings: readonly KernelSetting[],
  logger: Logger,
): Promise<string[]> {
  const refused = new Map<string, KernelSetting[]>();
  for (const setting of settings) {
    const reason = await applySetting(files, setting, logger);
    if (reason !== undefined) refused.set(reason, [...(refused.get(reason) ?? []), setting]);
  }
  for (const [reason, failed] of refused) {
    const wanted = failed.map(({ path, value }) => `${path}=${value}`);
    logger.warn({ settings: wanted, error: reason, hint: hintFor(reason) }, "cannot change settings of the kernel");
  }
  return [...refused.values()].flat().map(({ path }) => path);
}

/** Why it could not be made: the system's error code; undefined when all is well. */
async function applySetting(
  files: HostFiles,
  { path, value, onlyRaise }: KernelSetting,
  logger: Logger,
): Promise<string | undefined> {
  try {
    const current = Number(await files.read(path));
    if (current === value || (onlyRaise && current > value)) return undefined;
    await files.write(path, String(value));
    logger.info({ path, from: current, to: value }, "changed a setting of the kernel");
    return undefined;
  } catch (error) {
    return systemErrorCode(error);
  }
}

function hintFor(reason: string): string {
  switch (reason) {
    case "ENOENT":
      return "the kernel module nf_conntrack is not loaded, or this kernel has no such setting";
    case "EROFS":
    case "EACCES":
    case "EPERM":
      return "run privileged in the host's network namespace, or set them on the host (sysctl.d) and the options to 0";
    default:
      return "set them on the host (sysctl.d) and the options to 0";
  }
}
