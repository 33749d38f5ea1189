import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execaSync } from "execa";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { configPoller } from "../../../src/daemon/config-poller.ts";

let directory: string;
let path: string;
beforeEach(() => {
  vi.useFakeTimers();
  directory = mkdtempSync(join(tmpdir(), "config-poller-"));
  path = join(directory, "config.yaml");
});
afterEach(() => {
  vi.useRealTimers();
  rmSync(directory, { recursive: true });
});

test("a change of the configuration is noticed once, even between its first reading and the start", () => {
  writeFileSync(path, "mode: nftables");
  const watch = configPoller(path);
  writeFileSync(path, "mode: iptables");
  let changes = 0;
  watch.start(() => changes++);
  vi.advanceTimersByTime(3000);
  expect(changes).toBe(1);
  writeFileSync(path, "mode: nftables");
  vi.advanceTimersByTime(1000);
  expect(changes).toBe(2);
  rmSync(path);
  vi.advanceTimersByTime(1000);
  expect(changes, "a file that cannot be read counts as unchanged").toBe(2);
  watch.stop();
});

test("a change that was already read on request is not noticed again", () => {
  writeFileSync(path, "mode: nftables");
  const watch = configPoller(path);
  let changes = 0;
  watch.start(() => changes++);
  writeFileSync(path, "mode: iptables");
  watch.readAgain();
  vi.advanceTimersByTime(1000);
  expect(changes).toBe(0);
  rmSync(path);
  watch.readAgain();
  expect(watch.hasFile(), "a file that is gone may come back").toBe(true);
  watch.stop();
});

test("a pipe is not read by the poller", () => {
  execaSync("mkfifo", [path]);
  const watch = configPoller(path);
  watch.start(() => {});
  vi.advanceTimersByTime(1000);
  expect(watch.hasFile()).toBe(false);
  watch.stop();
});
