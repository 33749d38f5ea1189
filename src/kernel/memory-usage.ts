import { readFileSync } from "node:fs";
import type { HostFiles } from "./host.ts";

/**
 * The memory files of this process's control group as a container sees it, by the version of control groups.
 * The root group of a host has none in version 2, and no limit in version 1.
 */
const GROUPS = [
  {
    directory: "/sys/fs/cgroup/memory.",
    files: { current: "current", max: "max", peak: "peak", inactive: "inactive_file" },
  },
  {
    directory: "/sys/fs/cgroup/memory/memory.",
    files: {
      current: "usage_in_bytes",
      max: "limit_in_bytes",
      peak: "max_usage_in_bytes",
      inactive: "total_inactive_file",
    },
  },
] as const;

/**
 * Delay until a program's memory is first read, milliseconds. nft runs for at least 0.1 s when it needs much
 * memory.
 */
const FIRST_READ = 20;

/** Factor by which the pause grows with each read, so that a long-running program costs nothing. */
const GROWTH = 1.25;

/** The program that starts another with limits (see limitedRun); the same process soon runs that program. */
const STARTER = "prlimit";

/** The memory of this process's container, all processes together. Bytes. */
export type ContainerMemory = NonNullable<Awaited<ReturnType<typeof containerMemory>>>;

/** The resident memory of a program that this process starts. Bytes. */
export interface ProgramMemory {
  /** The kernel's name of the program: `nft`. */
  readonly program: string;
  /** Current sum over its processes; 0 when none runs. */
  readonly resident: number;
  /** Highest value that was read of one of its processes. */
  readonly peak: number;
}

/** Source of the daemon's memory metrics. */
export interface MemoryUsage {
  /** Resident memory of this process, bytes. */
  readonly own: () => number;
  readonly container: () => Promise<ContainerMemory | undefined>;
  readonly programs: () => Promise<readonly ProgramMemory[]>;
}

/**
 * Returns the memory of this process's container; undefined outside a container, and with version 1 of
 * control groups if it has no limit.
 */
export async function containerMemory(files: HostFiles) {
  for (const group of GROUPS) {
    const current = await groupBytes(files, group, "current");
    const limit = await groupBytes(files, group, "max");
    if (current === undefined || (limit === undefined && group !== GROUPS[0])) continue;
    const stat = await files.read(`${group.directory}stat`).catch(() => "");
    const inactive = Number(new RegExp(`^${group.files.inactive} (\\d+)$`, "m").exec(stat)?.[1] ?? 0);
    return {
      /** Without the page cache that was not used recently, as the kubelet counts. */
      workingSet: Math.max(0, current - inactive),
      /** Undefined if memory is not limited. */
      limit,
      /** Maximum so far, with all page cache; undefined before Linux 5.19. */
      peak: await groupBytes(files, group, "peak"),
    };
  }
  return undefined;
}

/**
 * Reads a number from a file of a control group; undefined if there is no such file, and without a limit:
 * `max`, or in version 1 the greatest number of pages.
 */
async function groupBytes(
  files: HostFiles,
  { directory, files: names }: (typeof GROUPS)[number],
  name: "current" | "max" | "peak",
): Promise<number | undefined> {
  const bytes = Number(await files.read(`${directory}${names[name]}`).catch(() => ""));
  return Number.isSafeInteger(bytes) && bytes > 0 ? bytes : undefined;
}

/** Highest resident memory that was read of one process, by program. Bytes. */
const peaks = new Map<string, number>();

/**
 * Returns the memory of running programs and of those seen by {@link samplePeak}; empty if /proc cannot be
 * read.
 */
export async function programMemory(files: HostFiles): Promise<readonly ProgramMemory[]> {
  const resident = new Map([...peaks.keys()].map((program) => [program, 0]));
  const children = await files.read(`/proc/self/task/${process.pid}/children`).catch(() => "");
  for (const pid of children.split(" ").filter((text) => text !== "")) {
    const status = memoryOf(await files.read(`/proc/${pid}/status`).catch(() => ""));
    if (status === undefined) continue;
    notePeak(status);
    resident.set(status.program, (resident.get(status.program) ?? 0) + status.resident);
  }
  return [...resident].map(([program, bytes]) => ({
    program,
    resident: bytes,
    peak: peaks.get(program) ?? bytes,
  }));
}

/**
 * Samples the memory of a program until it ends: Node does not report it afterwards, and nft ends before the
 * next scrape. Does not keep this process alive.
 * @param pid undefined if it could not be started
 */
export function samplePeak(pid: number | undefined, ended: Promise<unknown>): void {
  if (pid === undefined) return;
  let timer: NodeJS.Timeout;
  const readAfter = (delay: number): void => {
    timer = setTimeout(() => {
      const status = memoryOf(statusText(pid));
      if (status !== undefined) notePeak(status);
      readAfter(delay * GROWTH);
    }, delay).unref();
  };
  readAfter(FIRST_READ);
  void ended.finally(() => clearTimeout(timer));
}

function statusText(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/status`, "utf8");
  } catch {
    return "";
  }
}

function notePeak({ program, peak }: ProgramMemory): void {
  peaks.set(program, Math.max(peaks.get(program) ?? 0, peak));
}

/**
 * Parses the memory in the text of /proc/PID/status. Undefined for a process that has ended, and for one
 * between fork and exec, which still has this process's name and memory.
 */
function memoryOf(status: string): ProgramMemory | undefined {
  ownName ??= nameOf(statusText(process.pid));
  const program = nameOf(status);
  const bytes = (field: string) =>
    Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, "m").exec(status)?.[1] ?? 0) * 1024;
  const resident = bytes("VmRSS");
  if (program === undefined || program === STARTER || program === ownName || resident === 0) return undefined;
  return { program, resident, peak: bytes("VmHWM") };
}

/** The kernel's name for this process, once it is needed. */
let ownName: string | undefined;

function nameOf(status: string): string | undefined {
  return /^Name:\t(.+)$/m.exec(status)?.[1];
}
