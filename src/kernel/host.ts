import { createReadStream, readlinkSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { messageOf } from "../base/errors.ts";
import type { Family } from "../base/family.ts";
import type { Logger } from "../base/logger.ts";

/** The files through which the kernel is asked and told things: /proc and /sys. */
export interface HostFiles {
  /** The whole text. Rejects with the system's error (`code` such as ENOENT). */
  read(path: string): Promise<string>;
  /** Overwrites a file that is there. Rejects with the system's error. */
  write(path: string, text: string): Promise<void>;
  /** One line after the other, for files that may be large. The iteration throws the system's error. */
  lines(path: string): AsyncIterable<string>;
}

/** The files of the host that we run on. */
export const hostFiles: HostFiles = {
  read: (path) => readFile(path, "utf8"),
  // r+ so that a setting which this kernel lacks is reported as missing, instead of as a file that cannot be made.
  write: (path, text) => writeFile(path, text, { flag: "r+" }),
  lines: (path) => createInterface({ input: createReadStream(path), crlfDelay: Number.POSITIVE_INFINITY }),
};

/** The code of a system error, or its message for want of one. */
export function systemErrorCode(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" ? code : messageOf(error);
}

/**
 * The families that this host's kernel has. IPv6 is absent without its module and with `ipv6.disable=1`; the file
 * looked at is there in every network namespace otherwise, even an empty one.
 */
export async function hostFamilies(files: HostFiles): Promise<Family[]> {
  const hasIPv6 = await files.read("/proc/net/if_inet6").then(
    () => true,
    () => false,
  );
  return hasIPv6 ? ["ip", "ip6"] : ["ip"];
}

/**
 * How many CPU cores the host has online. Not what this process may use: the conntrack table belongs to the host.
 * `fallback` where the host does not say.
 */
export async function onlineCores(files: HostFiles, fallback: number): Promise<number> {
  const text = await files.read("/sys/devices/system/cpu/online").catch(() => "");
  const counts = text
    .trim()
    .split(",")
    .map((range) => {
      const [, from, to] = /^(\d+)(?:-(\d+))?$/.exec(range) ?? [];
      return from === undefined ? Number.NaN : Number(to ?? from) - Number(from) + 1;
    });
  const cores = counts.reduce((sum, count) => sum + count, 0);
  return cores > 0 ? cores : fallback;
}

/**
 * How many connections the kernel tracks in this network namespace (`count`), or tracks at most (`max`). Undefined where
 * the module nf_conntrack is not loaded, or the file cannot be read.
 */
export async function conntrackSize(files: HostFiles, name: "count" | "max"): Promise<number | undefined> {
  const text = await files.read(`/proc/sys/net/netfilter/nf_conntrack_${name}`).catch(() => undefined);
  return text === undefined ? undefined : Number(text);
}

/** Makes the kernel's out-of-memory killer prefer other processes (-1000..1000). A host that forbids it is warned of. */
export async function setOomScore(files: HostFiles, score: number, logger: Logger): Promise<void> {
  const path = "/proc/self/oom_score_adj";
  try {
    if (Number(await files.read(path)) === score) return;
    await files.write(path, String(score));
  } catch (error) {
    const hint = "lowering it needs the capability SYS_RESOURCE";
    logger.warn({ path, value: score, error: systemErrorCode(error), hint }, "cannot set the out-of-memory score");
  }
}

/** The network namespace of this process, as /proc names it: `net:[4026531840]`; "" when /proc does not tell. */
export function netNamespace(): string {
  try {
    return readlinkSync("/proc/self/ns/net");
  } catch {
    return "";
  }
}
