import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { type HostFiles, hostFiles } from "../../../src/kernel/host.ts";
import { containerMemory, programMemory, samplePeak } from "../../../src/kernel/memory-usage.ts";
import { runProcess } from "../../../src/kernel/process.ts";

const STAT = "anon 100\nfile 300\nactive_file 50\ninactive_file 200\n";

/** A host with these files and no others. */
function filesOf(texts: Readonly<Record<string, string>>): HostFiles {
  return {
    read: async (path) => texts[path] ?? Promise.reject(new Error("ENOENT")),
    write: async () => {},
    lines: async function* () {},
  };
}

function groupOf(files: Readonly<Record<string, string>>): HostFiles {
  return filesOf(
    Object.fromEntries(Object.entries(files).map(([name, text]) => [`/sys/fs/cgroup/memory.${name}`, text])),
  );
}

describe("the memory of the container", () => {
  test.each([
    [
      "is what all processes have, without inactive page cache",
      { current: "1000\n", stat: STAT, max: "4096\n", peak: "2000\n" },
      { workingSet: 800, limit: 4096, peak: 2000 },
    ],
    [
      "has no limit where there is none, and no peak before Linux 5.19",
      { current: "1000\n", stat: STAT, max: "max\n" },
      { workingSet: 800, limit: undefined, peak: undefined },
    ],
    [
      "counts all page cache where the kernel does not tell of it",
      { current: "1000\n", max: "4096\n" },
      { workingSet: 1000, limit: 4096, peak: undefined },
    ],
    ["is unknown in the root group", { stat: STAT }, undefined],
  ])("%s", async (_, files, expected) => {
    expect(await containerMemory(groupOf(files))).toEqual(expected);
  });

  test.each([
    ["4096", { workingSet: 700, limit: 4096, peak: 2000 }],
    ["9223372036854771712", undefined],
  ])("with version 1 of control groups and a limit of %s is %j", async (limit, expected) => {
    const files = {
      usage_in_bytes: "1000\n",
      limit_in_bytes: `${limit}\n`,
      max_usage_in_bytes: "2000\n",
      stat: `${STAT}total_inactive_file 300\n`,
    };
    const named = Object.entries(files).map(([name, text]) => [`/sys/fs/cgroup/memory/memory.${name}`, text]);
    expect(await containerMemory(filesOf(Object.fromEntries(named)))).toEqual(expected);
  });
});

function status(name: string, residentKb: number, peakKb: number): string {
  return `Name:\t${name}\nUmask:\t0022\nVmHWM:\t ${peakKb} kB\nVmRSS:\t ${residentKb} kB\n`;
}

describe("the memory of programs", () => {
  const CHILDREN = `/proc/self/task/${process.pid}/children`;
  const ofProbes = async (files: HostFiles) =>
    (await programMemory(files)).filter(({ program }) => program.startsWith("probe-"));

  test("is that of running children, and the highest of one process of each program", async () => {
    const running = filesOf({
      [CHILDREN]: "11 12 13 14 ",
      "/proc/11/status": status("probe-a", 10, 30),
      "/proc/12/status": status("probe-a", 20, 25),
      "/proc/13/status": status("probe-b", 5, 5),
      // A process that has ended, but was not waited for.
      "/proc/14/status": "Name:\tprobe-c\nState:\tZ (zombie)\n",
    });
    expect(await ofProbes(running)).toEqual([
      { program: "probe-a", resident: 30 * 1024, peak: 30 * 1024 },
      { program: "probe-b", resident: 5 * 1024, peak: 5 * 1024 },
    ]);
    expect(await ofProbes(filesOf({ [CHILDREN]: "" }))).toEqual([
      { program: "probe-a", resident: 0, peak: 30 * 1024 },
      { program: "probe-b", resident: 0, peak: 5 * 1024 },
    ]);
  });

  test("excludes a process between fork and exec", async () => {
    const own = await hostFiles.read(`/proc/${process.pid}/status`);
    const files = filesOf({
      [CHILDREN]: "11 12",
      "/proc/11/status": own,
      "/proc/12/status": status("prlimit", 10, 10),
    });
    const name = /^Name:\t(.*)$/m.exec(own)?.[1];
    const programs = (await programMemory(files)).map(({ program }) => program);
    expect(programs).not.toContain(name);
    expect(programs).not.toContain("prlimit");
  });

  test("has the highest value of a program that has ended", async () => {
    const directory = mkdtempSync(join(tmpdir(), "memory-usage-"));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    const [program, flag] = [join(directory, "probe-shell"), join(directory, "flag")];
    symlinkSync("/bin/sh", program);
    const loop = `until [ -e ${flag} ]; do sleep 0.01; done`;
    const run = runProcess(program, ["-c", loop], "", { timeoutMs: 60_000, maxOutputBytes: 1000 });
    const seen = async () => (await ofProbes(filesOf({}))).find((one) => one.program === "probe-shell");
    // Without /proc's list of children: what was seen while it ran.
    await vi.waitFor(async () => expect(await seen()).toBeDefined(), { timeout: 30_000 });
    writeFileSync(flag, "");
    expect((await run).exitCode).toBe(0);
    expect(await seen()).toMatchObject({
      resident: 0,
      peak: expect.toSatisfy((bytes: number) => bytes > 100_000),
    });
  });

  test("is read ever more rarely while a program runs", async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    let end = () => {};
    samplePeak(process.pid, new Promise<void>((resolve) => (end = resolve)));
    const startedAt = Date.now();
    let reads = 0;
    for (; Date.now() < startedAt + 120_000; reads++) vi.advanceTimersToNextTimer();
    expect(reads).toBeLessThan(40);
    end();
    await vi.waitFor(() => expect(vi.getTimerCount()).toBe(0));
  });
});
