import { execFileSync } from "node:child_process";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { FileSource } from "../../../../src/kube/files/file-source.ts";
import type { ObjectSource, SourceHandler, SourceHandlers } from "../../../../src/kube/source.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { type MemoryLogger, memoryLogger } from "../../../support/memory-logger.ts";

let directory: string;
let clock: ManualClock;
let source: ObjectSource;
let calls: string[];
let logger: MemoryLogger;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "file-source-"));
  clock = new ManualClock(1);
  calls = [];
  logger = memoryLogger();
});

afterEach(() => {
  source.stop();
  rmSync(directory, { recursive: true });
});

function handler<T>(): SourceHandler<T> {
  return {
    onUpsert: (key, _object, previous) => calls.push(`${previous === undefined ? "+" : "~"}${key}`),
    onDelete: (key) => calls.push(`-${key}`),
    onInvalid: (key) => calls.push(`!${key}`),
    onSynced: () => {},
  };
}

/** Starts to read the directory, or some paths. */
function start(paths: readonly string[] = [directory]): void {
  const handlers: SourceHandlers = {
    services: handler(),
    endpointslices: handler(),
    nodes: handler(),
    servicecidrs: handler(),
  };
  source = new FileSource({ paths, handlers, clock, logger });
  source.start();
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve));
}

/** Waits for the end of a check, then starts the next. */
async function check(): Promise<void> {
  await until(() => clock.timers === 1);
  clock.advance(1000);
  await until(() => clock.timers === 1);
}

function service(name: string, ip: string): string {
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Service",
    metadata: { name, uid: name },
    spec: { clusterIP: ip, ports: [{ port: 80 }] },
  });
}

function write(file: string, ...documents: string[]): void {
  writeFileSync(join(directory, file), documents.join("\n---\n"));
}

describe("a source of files", () => {
  test("reports what changes in the files, and nothing while they stay", async () => {
    write("a.yaml", service("a", "10.96.0.1"), service("b", "10.96.0.2"));
    start();
    await check();
    expect(calls.splice(0)).toEqual(["+default/a", "+default/b"]);
    write("a.yaml", service("a", "10.96.0.9"));
    await check();
    expect(calls.splice(0)).toEqual(["-default/b", "~default/a"]);
    await check();
    expect(calls).toEqual([]);
  });

  test("keeps the objects while files are missing, and recovers when the same files are back", async () => {
    write("a.yaml", service("a", "10.96.0.1"));
    start();
    await check();
    renameSync(directory, `${directory}.away`);
    await check();
    expect(source.states().services.failure).toContain("no such file or directory");
    renameSync(`${directory}.away`, directory);
    await check();
    expect(source.states().services).toMatchObject({ failure: "", objects: 1 });
    expect(calls).toEqual(["+default/a"]);
  });

  test("reads malformed files again when they change, and otherwise every 30 s", async () => {
    write("a.yaml", "kind: [");
    start();
    await check();
    const failures = () => source.states().services.errors.parse;
    expect(failures()).toBe(1);
    for (let second = 0; second < 20; second += 1) await check();
    expect(failures()).toBe(1);
    for (let second = 0; second < 20; second += 1) await check();
    expect(failures()).toBe(2);
    write("a.yaml", service("a", "10.96.0.1"));
    await check();
    expect(source.states().services).toMatchObject({ failure: "", objects: 1 });
  });

  test("reports a directory without files, and reads what comes into it", async () => {
    start();
    await check();
    expect(source.states().services.failure).toContain("the files contain no Service");
    write("a.yaml", service("a", "10.96.0.1"));
    await check();
    expect(source.states().services).toMatchObject({ failure: "", objects: 1 });
    expect(logger.lines.map(({ level, message }) => [level, message])).toEqual([
      ["warn", "cannot read the objects: the last known objects stay in use (logged once)"],
      ["info", "can read the objects again"],
    ]);
  });

  test("logs invalid objects once, 20 of a namespace at once, and again when they come back", async () => {
    const invalid = Array.from({ length: 30 }, (_, number) => service(`bad-${number}`, "none"));
    const reasons = () =>
      logger.lines
        .splice(0)
        .filter(({ level }) => level !== "debug")
        .map(({ message, fields }) => [message, fields.object]);
    write("a.yaml", service("a", "10.96.0.1"), ...invalid);
    start();
    await check();
    expect(logger.lines.at(19)?.fields).toMatchObject({ object: "Service default/bad-19", line: 41 });
    expect(reasons()).toHaveLength(20);
    write("a.yaml", service("a", "10.96.0.2"), ...invalid);
    await check();
    expect(reasons()).toEqual([]);
    write("a.yaml", service("a", "10.96.0.2"));
    await check();
    clock.advance(60_000);
    write("a.yaml", service("a", "10.96.0.2"), ...invalid);
    await check();
    expect(reasons()).toEqual([["invalid object, or a part of it, is ignored", "Service default/bad-0"]]);
  });

  test("delivers nothing of files that change while they are read", async () => {
    write("a.yaml", service("a", "10.96.0.1"));
    const pipe = join(directory, "pipe");
    execFileSync("mkfifo", [pipe]);
    start([directory, pipe]);
    // The source reads files in the order of their names: it opens the pipe when it has read the other one.
    const writer = await open(pipe, "w");
    write("a.yaml", service("a", "10.96.0.1"), service("c", "10.96.0.3"));
    await writer.writeFile(service("b", "10.96.0.2"));
    await writer.close();
    await until(() => clock.timers === 1);
    expect(calls).toEqual([]);
    expect(source.states().services.synced).toBe(false);
  });
});
