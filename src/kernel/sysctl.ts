import { addToGroup } from "../base/group-by.ts";
import type { Logger } from "../base/logger.ts";
import { type HostFiles, systemErrorCode } from "./host.ts";

/** Settings of the kernel's connection tracking; 0 leaves a setting unchanged. */
export interface ConntrackSettings {
  /** Entries per CPU core. 0 also disables `min`. */
  readonly maxPerCore: number;
  /** Minimum number of entries, regardless of `maxPerCore`. */
  readonly min: number;
  readonly tcpEstablishedTimeoutMs: number;
  readonly tcpCloseWaitTimeoutMs: number;
  readonly udpTimeoutMs: number;
  readonly udpStreamTimeoutMs: number;
  /** Set `nf_conntrack_tcp_be_liberal`. */
  readonly tcpBeLiberal: boolean;
}

/** A number in a file of /proc or /sys. */
export interface KernelSetting {
  readonly path: string;
  readonly value: number;
  /** Whether to keep a higher current value, which an administrator may have set. */
  readonly onlyRaise: boolean;
}

/** Sets this process's own `oom_score_adj` (-1000..1000). */
export async function setOomScore(files: HostFiles, value: number, logger: Logger): Promise<void> {
  const setting = { path: "/proc/self/oom_score_adj", value, onlyRaise: false };
  await applySettings(files, [setting], logger, "lowering it needs the capability SYS_RESOURCE");
}

/**
 * Maximum `nf_conntrack_max` that is derived from the number of cores, as in kube-proxy: at 320 bytes an
 * entry, hosts with hundreds of cores would need gigabytes.
 */
const MOST_ENTRIES_BY_CORES = 1_048_576;

/**
 * Returns the kernel settings of the conntrack options, in kube-proxy's order: the size of the table, its
 * buckets (a quarter of the size), then the timeouts. Size and buckets are only raised: unlike kube-proxy,
 * nft-proxy never lowers a higher `nf_conntrack_max`.
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
 * Applies the settings that differ from the current values. Logs one warning for each reason why some cannot
 * be changed.
 * @param hint what to do then; undefined for the advice on conntrack's settings
 */
export async function applySettings(
  files: HostFiles,
  settings: readonly KernelSetting[],
  logger: Logger,
  hint?: string,
): Promise<void> {
  const refused = new Map<string, KernelSetting[]>();
  for (const setting of settings) {
    const { path, value, onlyRaise } = setting;
    try {
      const current = Number(await files.read(path));
      if (current === value || (onlyRaise && current > value)) continue;
      await files.write(path, String(value));
      logger.info({ path, from: current, to: value }, "changed a kernel setting");
    } catch (error) {
      addToGroup(refused, systemErrorCode(error), setting);
    }
  }
  for (const [reason, failed] of refused) {
    const wanted = failed.map(({ path, value }) => `${path}=${value}`);
    const fields = { settings: wanted, error: reason, hint: hint ?? hintFor(reason) };
    logger.warn(fields, "cannot change kernel settings");
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
