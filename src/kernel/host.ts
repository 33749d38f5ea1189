import { createReadStream, readFileSync, readlinkSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { basename } from "node:path";
import { createInterface } from "node:readline";
import { AppError, messageOf } from "../base/errors.ts";
import type { Family } from "../base/family.ts";

/** Access to files of the kernel: /proc and /sys. */
export interface HostFiles {
  /**
   * Reads the whole file.
   * @throws Error of the system, with a `code` such as ENOENT
   */
  read(path: string): Promise<string>;
  /**
   * Overwrites an existing file.
   * @throws Error of the system, with a `code` such as ENOENT
   */
  write(path: string, text: string): Promise<void>;
  /**
   * Reads a file line by line, for files that may be large.
   * @throws Error of the system, with a `code` such as ENOENT, from the iteration
   */
  lines(path: string): AsyncIterable<string>;
}

/** The files of this host. */
export const hostFiles: HostFiles = {
  read: (path) => readFile(path, "utf8"),
  // With r+, a missing setting is reported as ENOENT, not as a file that cannot be created.
  write: (path, text) => writeFile(path, text, { flag: "r+" }),
  lines: (path) => createInterface({ input: createReadStream(path), crlfDelay: Number.POSITIVE_INFINITY }),
};

/** Returns the code of a system error, or the message of an error without one. */
export function systemErrorCode(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" ? code : messageOf(error);
}

/**
 * Returns the families that this host's kernel supports. IPv6 is absent without its module and with
 * `ipv6.disable=1`; otherwise the file exists in every network namespace.
 * @throws AppError HOST if it cannot be read for another reason: lack of memory must not look like a host
 * without IPv6
 */
export async function hostFamilies(files: HostFiles): Promise<Family[]> {
  const path = "/proc/net/if_inet6";
  try {
    await files.read(path);
    return ["ip", "ip6"];
  } catch (cause) {
    const code = systemErrorCode(cause);
    if (code === "ENOENT") return ["ip"];
    throw new AppError("HOST", `cannot tell from ${path} whether this host has IPv6: ${code}`, { cause });
  }
}

/**
 * Returns the number of online CPU cores of the host, however many this process may use: the conntrack table
 * belongs to the host. Returns 1 if /sys cannot be read.
 */
export async function onlineCores(files: HostFiles): Promise<number> {
  const text = await files.read("/sys/devices/system/cpu/online").catch(() => "");
  const counts = text
    .trim()
    .split(",")
    .map((range) => {
      const [, from, to] = /^(\d+)(?:-(\d+))?$/.exec(range) ?? [];
      return from === undefined ? Number.NaN : Number(to ?? from) - Number(from) + 1;
    });
  const cores = counts.reduce((sum, count) => sum + count, 0);
  return cores > 0 ? cores : 1;
}

/**
 * Returns the number of connections that the kernel tracks in this network namespace (`count`), or the limit
 * (`max`).
 * @returns undefined if the module nf_conntrack is not loaded or the file cannot be read
 */
export async function conntrackSize(files: HostFiles, name: "count" | "max"): Promise<number | undefined> {
  const text = await files.read(`/proc/sys/net/netfilter/nf_conntrack_${name}`).catch(() => undefined);
  return text === undefined ? undefined : Number(text);
}

/** The network namespace of this process, such as `net:[4026531840]`; "" if /proc cannot be read. */
export function netNamespace(): string {
  try {
    return readlinkSync("/proc/self/ns/net");
  } catch {
    return "";
  }
}

/** The kernel's name of a program that its dynamic loader started: `ld-linux-x86-64.so.2 /usr/sbin/nft`. */
const LOADER = /^ld-(?:linux|musl)/;

/** Options of glibc's loader without a value of their own. */
const LOADER_SWITCHES: ReadonlySet<string> = new Set(["--list", "--verify", "--inhibit-cache"]);

/**
 * Returns the name of a program by the kernel's name of its process. For a loader, that is the name of the
 * program that it loads, if the process still runs and can be seen from here.
 */
export function programName(name: string, pid: number): string {
  if (!LOADER.test(name)) return name;
  try {
    const read = (file: string) => readFileSync(`/proc/${pid}/${file}`, "utf8");
    // The commit may come from another PID namespace, where this number means another process.
    if (read("comm").trim() === name) return loadedBy(read("cmdline").split("\0").slice(1)) ?? name;
  } catch {
    // The process has ended.
  }
  return `a program that ${name} loaded`;
}

/** @param args of the loader */
function loadedBy(args: readonly string[]): string | undefined {
  const [first, ...rest] = args;
  if (first === undefined || first === "") return undefined;
  if (!first.startsWith("--")) return basename(first);
  return loadedBy(LOADER_SWITCHES.has(first) || first.includes("=") ? rest : rest.slice(1));
}
