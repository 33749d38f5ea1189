import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execaSync } from "execa";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import type { Clock } from "../../src/base/clock.ts";
import { conntrackTable, type Flow, type FlowChange } from "../../src/kernel/conntrack.ts";
import { type FlowListener, flowListener } from "../../src/kernel/flow-listener.ts";
import { hostFiles } from "../../src/kernel/host.ts";
import { systemClock } from "../../src/kernel/system-clock.ts";
import { TELLS_STATE_OF_DELETED } from "../support/linux-release.ts";
import { PATIENCE } from "../support/patience.ts";

/** As flow-listener.ts and netlink-events.ts say. Milliseconds. */
const [PAUSE, PONG_TIMEOUT] = [5, 5_000];

const stops: (() => void)[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
  execaSync("conntrack", ["-F"], { reject: false });
});

interface Heard {
  readonly listener: FlowListener;
  readonly changes: [change: FlowChange, flow: Flow][];
  readonly reasons: unknown[];
}

async function listening(socat?: string): Promise<Heard> {
  const changes: Heard["changes"] = [];
  const reasons: unknown[] = [];
  const listener = flowListener(
    systemClock,
    hostFiles,
    socat === undefined ? {} : { socat },
  )({
    wants: (change, { state }) => change === "deleted" || state === "time_wait",
    onFlow: (change, flow) => changes.push([change, flow]),
    onEnd: (reason) => reasons.push(reason),
  });
  stops.push(() => listener.stop());
  expect(await listener.ready).toBe(true);
  return { listener, changes, reasons };
}

const STATE_OF_DELETED = TELLS_STATE_OF_DELETED ? "time_wait" : "replied";
const [FROM, VIP, POD] = ["192.0.2.9", "10.96.0.10", "10.244.1.5"];

/** Adds a translated TCP connection, as `conntrack` does by its options. */
function add(port: number, state: string): void {
  const ends = ["-s", FROM, "-d", VIP, "-r", POD, "-q", FROM, "--sport", `${port}`, "--dport", "80"];
  const reply = ["--reply-port-src", "8080", "--reply-port-dst", `${port}`, "-t", "300"];
  execaSync("conntrack", ["-I", "-p", "tcp", ...ends, ...reply, "--state", state, "-u", "SEEN_REPLY"]);
}

function change(port: number, state: string): void {
  execaSync("conntrack", ["-U", "-p", "tcp", "-s", FROM, "--sport", `${port}`, "--state", state]);
}

describe("a listener to flows", () => {
  test("reports new and deleted flows, and changes to the states that matter", async () => {
    const { changes, reasons } = await listening();
    add(1000, "SYN_SENT");
    change(1000, "ESTABLISHED");
    change(1000, "TIME_WAIT");
    execaSync("conntrack", ["-D", "-p", "tcp", "-s", FROM]);
    await expect.poll(() => changes.length, PATIENCE).toBe(3);
    expect(changes).toMatchObject([
      ["created", { client: { address: FROM, port: 1000 }, replySource: { address: POD, port: 8080 } }],
      ["changed", { state: "time_wait", isAnswered: true }],
      ["deleted", { destination: { address: VIP, port: 80 }, state: STATE_OF_DELETED }],
    ]);
    expect(reasons).toEqual([]);
  });

  describe("of more than it can read", () => {
    const directory = mkdtempSync(join(tmpdir(), "flow-listener-"));
    const socat = join(directory, "socat");
    // Messages of the type NLMSG_NOOP.
    const message = Buffer.from(Uint32Array.of(16, 1, 0, 0).buffer);
    writeFileSync(join(directory, "messages"), Buffer.alloc(131_072, message));
    writeFileSync(socat, `#!/bin/sh\nwhile cat ${directory}/messages; do :; done\n`);
    chmodSync(socat, 0o755);
    afterAll(() => rmSync(directory, { recursive: true }));

    /** Returns how long it rests after readings of many messages. Each takes 1 ms, and each rest a second. */
    async function restsWith(leastRest: number, ...uptimes: string[]): Promise<number[]> {
      const rests: number[] = [];
      const count = uptimes.length;
      let now = 0;
      const after: Clock["after"] = (ms, callback) => {
        const isRest = ms !== PAUSE && ms < PONG_TIMEOUT;
        if (isRest) rests.push(ms);
        return systemClock.after(isRest ? 1 : ms, () => {
          if (isRest) now += 1000;
          callback();
        });
      };
      const clock = { ...systemClock, after, monotonic: () => (now += 1) };
      const read = async () => uptimes.shift() ?? "";
      const handlers = { wants: () => true, onFlow: () => {}, onEnd: () => {} };
      const listener = flowListener(clock, { ...hostFiles, read }, { socat, leastRest })(handlers);
      stops.push(() => listener.stop());
      await expect.poll(() => rests.length, PATIENCE).toBeGreaterThanOrEqual(count);
      return rests.slice(0, count);
    }

    test("rests the longer, the fewer processors are idle", async () => {
      const unknown = "";
      const uptimes = ["100.00 50.00", "101.00 50.125", "102.00 50.125", "103.00 53.125", unknown];
      expect(await restsWith(1, ...uptimes)).toEqual([1, 8, 100, 1, 1]);
    });

    test("leaves at least a multiple of the time of each reading to other work", async () => {
      expect(await restsWith(3, "100.00 50.00", "101.00 52.00")).toEqual([3, 3]);
    });
  });

  test("ends with a reason when its socat is killed", async () => {
    const directory = mkdtempSync(join(tmpdir(), "flow-listener-"));
    const path = join(directory, "socat");
    writeFileSync(path, `#!/bin/sh\necho $$ > ${directory}/pid\nexec socat "$@"\n`);
    chmodSync(path, 0o755);
    const { reasons } = await listening(path);
    execaSync("sh", ["-c", `kill -KILL $(cat ${directory}/pid)`]);
    await expect.poll(() => reasons, PATIENCE).toMatchObject([{ code: "HOST" }]);
    rmSync(directory, { recursive: true });
  });

  test("counts what the kernel dropped while socat did not read, and goes on", async () => {
    const directory = mkdtempSync(join(tmpdir(), "flow-listener-"));
    const path = join(directory, "socat");
    const smallest = "s/setsockopt-int=1:33:[0-9]*/rcvbuf=1/";
    writeFileSync(
      path,
      `#!/bin/sh\necho $$ > ${directory}/pid\nfor last; do :; done\nlast=$(echo "$last" | sed '${smallest}')\nexec socat -d -t 0 -b 65536 STDIO "$last"\n`,
    );
    chmodSync(path, 0o755);
    const { listener, changes, reasons } = await listening(path);
    expect(await listener.dropped()).toBe(0);
    const signal = (name: string) => execaSync("sh", ["-c", `kill -${name} $(cat ${directory}/pid)`]);
    signal("STOP");
    for (let port = 1; port <= 40; port++) add(port, "ESTABLISHED");
    signal("CONT");
    await expect.poll(async () => changes.length + (await listener.dropped()), PATIENCE).toBe(40);
    expect(await listener.dropped()).toBeGreaterThan(0);
    add(1000, "ESTABLISHED");
    await expect.poll(() => changes.at(-1)?.[1].client.port, PATIENCE).toBe(1000);
    expect(reasons).toEqual([]);
    rmSync(directory, { recursive: true });
  });
});

test("flows are read again by their addresses and ports, without those that have ended", async () => {
  // Later test files of this process count its programs, so the socket is not kept for 10 s.
  const after: Clock["after"] = (ms, callback) => systemClock.after(ms === 10_000 ? 0 : ms, callback);
  const table = conntrackTable({ ...systemClock, after });
  const { changes } = await listening();
  for (let port = 1; port <= 250; port++) add(port, "ESTABLISHED");
  await expect.poll(() => changes.length, PATIENCE).toBe(250);
  change(7, "TIME_WAIT");
  execaSync("conntrack", ["-D", "-p", "tcp", "-s", FROM, "--sport", "8"]);
  const found = await table.current(changes.slice(0, 250).map(([, flow]) => flow));
  expect(found).toHaveLength(249);
  expect(found.find(({ client }) => client.port === 7)?.state).toBe("time_wait");
});
