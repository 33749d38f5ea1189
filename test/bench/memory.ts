import { readFileSync, readlinkSync, writeFileSync } from "node:fs";

/**
 * Peaks of resident memory, bytes: of a process, of one nft that it started, and of all processes at the same
 * time.
 */
export interface Memory {
  readonly node: number;
  readonly nft: number;
  readonly together: number;
}

const PERIOD = 5;

/**
 * Reads the memory of a process and its children repeatedly, because nft's memory comes and goes within a
 * second.
 */
export class MemoryWatch {
  readonly #pid: number;
  readonly #timer: NodeJS.Timeout;
  #node = 0;
  #nft = 0;
  #together = 0;

  constructor(pid: number) {
    this.#pid = pid;
    this.#timer = setInterval(() => this.#look(), PERIOD);
  }

  /** Stops reading. @returns the peaks */
  stop(): Memory {
    this.#look();
    clearInterval(this.#timer);
    return { node: this.#node, nft: this.#nft, together: this.#together };
  }

  #look(): void {
    const own = statusOf(this.#pid);
    if (own === undefined) return;
    this.#node = Math.max(this.#node, own.peak);
    const programs = programsOf(this.#pid);
    for (const { peak } of programs) this.#nft = Math.max(this.#nft, peak);
    this.#together = Math.max(this.#together, sumOf([own, ...programs]));
  }
}

/** Returns the resident memory of a process and its running programs, bytes; 0 if it has ended. */
export function togetherBytes(pid: number): number {
  const own = statusOf(pid);
  return own === undefined ? 0 : sumOf([own, ...programsOf(pid)]);
}

interface Status {
  readonly now: number;
  readonly peak: number;
}

function sumOf(processes: readonly Status[]): number {
  return processes.reduce((sum, { now }) => sum + now, 0);
}

/**
 * Returns the children of a process, except those between fork and exec, which still show the parent's
 * memory.
 */
function programsOf(pid: number): Status[] {
  return childrenOf(pid).flatMap((child) => {
    const status = programOf(child) === programOf(pid) ? undefined : statusOf(child);
    return status === undefined ? [] : [status];
  });
}

/** Returns the current resident memory of a process, bytes; 0 if it has ended. */
export function residentBytes(pid: number): number {
  return statusOf(pid)?.now ?? 0;
}

/** Returns the peak of a process's resident memory, bytes; 0 if it has ended. */
export function peakBytes(pid: number): number {
  return statusOf(pid)?.peak ?? 0;
}

/**
 * Returns the CPU time of a process and its children, running and ended ones, milliseconds.
 * Source: proc(5), clock ticks of 10 ms.
 */
export function cpuMs(pid: number): number {
  const { own, children } = cpuOf(pid);
  return own + children;
}

/** Like {@link cpuMs}, separately for the process and for its children. */
export function cpuOf(pid: number): { readonly own: number; readonly children: number } {
  const [own, ended] = cpuTimes(pid);
  const running = childrenOf(pid).map((child) => cpuTimes(child)[0]);
  return { own, children: running.reduce((sum, one) => sum + one, ended) };
}

/** Resets the peak of a process's resident memory to the current value. Source: proc(5), clear_refs. */
export function forgetPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, "5");
}

/** Returns the CPU time of all ended children of this process, and of their children, milliseconds. */
export function childrenCpuMs(): number {
  return cpuTimes(process.pid)[1];
}

function cpuTimes(pid: number): readonly [own: number, children: number] {
  const fields = readProc(`/proc/${pid}/stat`)?.split(") ")[1]?.split(" ") ?? [];
  const [user = 0, system = 0, childUser = 0, childSystem = 0] = fields
    .slice(11, 15)
    .map((ticks) => Number(ticks) * 10);
  return [user + system, childUser + childSystem];
}

function statusOf(pid: number): Status | undefined {
  const text = readProc(`/proc/${pid}/status`);
  if (text === undefined) return undefined;
  const bytes = (name: string) =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(text)?.[1] ?? 0) * 1024;
  return { now: bytes("VmRSS"), peak: bytes("VmHWM") };
}

/** Returns the running processes that a process has started. */
export function childrenOf(pid: number): number[] {
  const text = readProc(`/proc/${pid}/task/${pid}/children`) ?? "";
  return text
    .split(" ")
    .filter((one) => one !== "")
    .map(Number);
}

function readProc(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}

function programOf(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/exe`);
  } catch {
    return undefined;
  }
}
