import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execaSync } from "execa";
import { afterEach, describe, expect, test } from "vitest";
import type { Clock } from "../../src/base/clock.ts";
import { conntrackTable, type Flow, type FlowChange } from "../../src/kernel/conntrack.ts";
import { type FlowListener, flowListener } from "../../src/kernel/flow-listener.ts";
import { hostFiles } from "../../src/kernel/host.ts";
import { systemClock } from "../../src/kernel/system-clock.ts";
import { TELLS_STATE_OF_DELETED } from "../support/linux-release.ts";
import { PATIENCE } from "../support/patience.ts";

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

  test("leaves a multiple of the time of each reading to other work", async () => {
    let now = 0;
    const pauses: number[] = [];
    const after: Clock["after"] = (ms, callback) => {
      pauses.push(ms);
      return systemClock.after(ms, callback);
    };
    // A reading takes 10 ms.
    const clock = { ...systemClock, after, monotonic: () => (now += 10) };
    const handlers = { wants: () => true, onFlow: () => {}, onEnd: () => {} };
    const listener = flowListener(clock, hostFiles, { restRatio: 3 })(handlers);
    stops.push(() => listener.stop());
    expect(await listener.ready).toBe(true);
    expect(pauses).toContain(30);
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
