import { readFileSync } from "node:fs";
import type { HostFiles } from "./host.ts";

/** The control group of this process, as a container sees it; the root group of a host has no files about memory. */
const GROUP = "/sys/fs/cgroup";

/** When a program's memory is looked at first, milliseconds: nft runs for 0.1 s and more where it needs much. */
const FIRST_LOOK = 20;

/** The pause before each further look grows by this, so that a program that runs for long costs nothing. */
const GROWTH = 1.25;

/** The longest pause, milliseconds; timers of Node end at 24 days. */
const LONGEST_PAUSE = 60_000;

/** The program that starts another one with limits, see limitedRun in nft-limits.ts: it becomes that one at once. */
const STARTER = "prlimit";

/** The memory of this process's container, bytes: of all its processes together. */
export interface ContainerMemory {
  /** All but the page cache that was not used lately, as the kubelet counts. */
  readonly workingSet: number;
  /** Undefined where memory is not limited. */
  readonly limit: number | undefined;
  /** The most that there ever was, with all page cache; undefined before Linux 5.19. */
  readonly peak: number | undefined;
}

/** The resident memory of a program that this process starts, bytes. */
export interface ProgramMemory {
  /** As the kernel names it: `nft`. */
  readonly program: string;
  /** Now, of all processes of it together; 0 when none runs. */
  readonly resident: number;
  /** The most that was seen of one process of it. */
  readonly peak: number;
}

/** Where the daemon's metrics of memory come from. */
export interface MemoryUsage {
  readonly container: () => Promise<ContainerMemory | undefined>;
  readonly programs: () => Promise<readonly ProgramMemory[]>;
}

/** The memory of this process's container; undefined outside of one, and with version 1 of control groups. */
export async function containerMemory(files: HostFiles): Promise<ContainerMemory | undefined> {
  const current = await groupBytes(files, "current");
  if (current === undefined) return undefined;
  const stat = await files.read(`${GROUP}/memory.stat`).catch(() => "");
  const inactive = Number(/^inactive_file (\d+)$/m.exec(stat)?.[1] ?? 0);
  return {
    workingSet: Math.max(0, current - inactive),
    limit: await containerMemoryLimit(files),
    peak: await groupBytes(files, "peak"),
  };
}

/** What this process's container may use, bytes; undefined where memory is not limited. */
export async function containerMemoryLimit(files: HostFiles): Promise<number | undefined> {
  return await groupBytes(files, "max");
}

/** The number in a file of the control group; undefined for `max`, and where there is no such file. */
async function groupBytes(files: HostFiles, name: "current" | "max" | "peak"): Promise<number | undefined> {
  const bytes = Number(await files.read(`${GROUP}/memory.${name}`).catch(() => ""));
  return Number.isSafeInteger(bytes) && bytes > 0 ? bytes : undefined;
}

/** The most resident memory that was seen of one process, by program. */
const peaks = new Map<string, number>();

/** The memory of the programs that run, and of those that {@link samplePeak} has seen; nothing where /proc does not tell. */
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

/** A program that was started, or could not be. */
interface StartedProgram {
  readonly pid?: number | undefined;
  once(event: "exit", listener: () => void): unknown;
}

/**
 * Looks at the memory of a program until it ends: Node does not tell it afterwards, and nft is gone before the next scrape.
 * Does not keep this process alive.
 */
export function samplePeak(child: StartedProgram): void {
  const { pid } = child;
  if (pid === undefined) return;
  let timer: NodeJS.Timeout;
  const lookAfter = (delay: number): void => {
    timer = setTimeout(() => {
      const status = memoryOf(statusText(pid));
      if (status !== undefined) notePeak(status);
      lookAfter(Math.min(delay * GROWTH, LONGEST_PAUSE));
    }, delay).unref();
  };
  lookAfter(FIRST_LOOK);
  child.once("exit", () => clearTimeout(timer));
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
 * The memory in the text of /proc/PID/status. Undefined for a process that has ended, and for one that is about to be
 * another program: between fork and exec it has this process's name and memory.
 */
function memoryOf(status: string): ProgramMemory | undefined {
  const program = nameOf(status);
  const bytes = (field: string) =>
    Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, "m").exec(status)?.[1] ?? 0) * 1024;
  const resident = bytes("VmRSS");
  if (program === undefined || program === STARTER || program === ownName() || resident === 0)
    return undefined;
  return { program, resident, peak: bytes("VmHWM") };
}

let own: string | undefined;

/** The name that the kernel has for this process. */
function ownName(): string | undefined {
  own ??= nameOf(statusText(process.pid));
  return own;
}

function nameOf(status: string): string | undefined {
  return /^Name:\t(.+)$/m.exec(status)?.[1];
}
