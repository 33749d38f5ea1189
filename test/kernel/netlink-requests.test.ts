import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Clock } from "../../src/base/clock.ts";
import { type NetlinkRequests, netlinkRequests, REQUESTS } from "../../src/kernel/netlink-requests.ts";
import { runProcess } from "../../src/kernel/process.ts";
import { systemClock } from "../../src/kernel/system-clock.ts";
import type { NetlinkMessage } from "../../src/netlink/message.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { elementsOf } from "../support/netlink-socket.ts";

const requestOf = (set: string) => REQUESTS.dump({ family: "ip", table: "requests", set });
const SMALL = requestOf("small");
const LARGE = requestOf("large");

async function nft(text: string): Promise<void> {
  const { stderr } = await runProcess("nft", ["-f", "-"], text, {
    timeoutMs: 60_000,
    maxOutputBytes: 100_000,
  });
  expect(stderr).toBe("");
}

function range(count: number): string {
  return Array.from({ length: count }, (_, index) => index).join(", ");
}

beforeAll(() =>
  nft(`table ip requests {
    set small { type mark; elements = { ${range(3)} }; }
    set large { type mark; elements = { ${range(100_000)} }; }
  }`),
);

/** Returns the process ids of the socat programs of this process that it has not reaped yet. */
function children(): number[] {
  // Node starts programs from its main thread, and in some pools tests run in another thread.
  const tasks = readdirSync("/proc/self/task").map((task) => `/proc/self/task/${task}/children`);
  const pids = tasks.flatMap((path) => readFileSync(path, "utf8").split(" ").filter(Boolean).map(Number));
  // A process that has ended has no command line. socat itself may be run by a shell or a dynamic linker.
  return pids.filter((pid) => /^$|socat/.test(readFileSync(`/proc/${pid}/cmdline`, "utf8")));
}

let requests: NetlinkRequests;
afterEach(async () => {
  requests.close();
  await expect.poll(children).toEqual([]);
});

function open(clock: Clock = systemClock, socat?: string): void {
  requests = netlinkRequests(clock, socat);
}

/** Sends a request and returns the number of elements in the answer. */
async function count(request: Uint8Array): Promise<number> {
  return await countIn(requests.ask(request));
}

async function countIn(answer: AsyncIterable<readonly NetlinkMessage[]>): Promise<number> {
  let elements = 0;
  for await (const messages of answer) elements += elementsOf(messages).length;
  return elements;
}

describe("netlinkRequests", () => {
  test("yields 100,000 elements, and later answers through the same socat", async () => {
    open();
    expect(await count(LARGE)).toBe(100_000);
    const socat = children();
    expect(socat).toHaveLength(1);
    expect(await count(SMALL)).toBe(3);
    expect(children()).toEqual(socat);
  });

  test("sends simultaneous requests one after another", async () => {
    open();
    expect(await Promise.all([count(LARGE), count(SMALL), count(LARGE)])).toEqual([100_000, 3, 100_000]);
    expect(children()).toHaveLength(1);
  });

  test("ends the answer at an error", async () => {
    open();
    const answer: NetlinkMessage[] = [];
    for await (const messages of requests.ask(requestOf("none"))) answer.push(...messages);
    expect(answer).toEqual([{ kind: "error", errno: 2 }]);
    expect(await count(SMALL)).toBe(3);
  });

  test("makes the kernel wait while its answer is not read", async () => {
    open();
    const answer = requests.ask(LARGE);
    const { value: first = [] } = await answer.next();
    const memory = () =>
      Number(/^ *[0-9a-f]+ +12 +\d+ +[0-9a-f]+ +(\d+)/m.exec(sockets(children()[0] ?? 0))?.[1]);
    await expect.poll(memory).toBeGreaterThan(50_000);
    await wait(100);
    expect(memory()).toBeLessThan(1_000_000);
    expect(elementsOf(first ?? []).length + (await countIn(answer))).toBe(100_000);
  });

  test("restarts socat after an answer that was not read to its end", async () => {
    open();
    for await (const _messages of requests.ask(LARGE)) break;
    expect(await count(SMALL)).toBe(3);
  });

  test("restarts socat after it was killed, and fails if that was during an answer", async () => {
    open();
    expect(await count(SMALL)).toBe(3);
    for (const pid of children()) process.kill(pid, "SIGKILL");
    await expect.poll(children).toEqual([]);
    expect(await count(SMALL)).toBe(3);
    const answer = requests.ask(LARGE);
    await answer.next();
    for (const pid of children()) process.kill(pid, "SIGKILL");
    await expect(countIn(answer)).rejects.toMatchObject({
      code: "HOST",
      message: expect.stringContaining("ended by SIGKILL"),
    });
    expect(await count(SMALL)).toBe(3);
  });

  test("gives up on an answer that takes too long", async () => {
    const clock = new ManualClock();
    open(clock);
    await count(SMALL);
    for (const pid of children()) process.kill(pid, "SIGSTOP");
    const late = count(SMALL);
    const told = expect(late).rejects.toMatchObject({
      code: "HOST",
      message: "cannot read the kernel's tables: no answer within 5 s",
    });
    await expect.poll(() => clock.timers).toBe(1);
    clock.advance(5000);
    await told;
    expect(await count(SMALL)).toBe(3);
    expect(clock.timers).toBe(0);
  });

  test("reports that socat is missing", async () => {
    open(systemClock, "/nonexistent/socat");
    await expect(count(SMALL)).rejects.toMatchObject({
      code: "HOST",
      message: "cannot start /nonexistent/socat (ENOENT)",
      hint: expect.stringContaining("install the package socat"),
    });
  });
});

/** Returns the kernel's lines about the netlink sockets whose port id is that of a process. */
function sockets(pid: number): string {
  const lines = readFileSync("/proc/net/netlink", "utf8").split("\n");
  return lines.filter((line) => line.trim().split(/ +/)[2] === String(pid)).join("\n");
}
