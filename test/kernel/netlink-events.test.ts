import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { daemonNft } from "../../src/kernel/daemon-nft.ts";
import {
  type NetlinkEvents,
  type NetlinkEventsParts,
  netlinkEvents,
} from "../../src/kernel/netlink-events.ts";
import { netlinkListener } from "../../src/kernel/netlink-listener.ts";
import { REQUESTS } from "../../src/kernel/netlink-requests.ts";
import { runProcess } from "../../src/kernel/process.ts";
import { systemClock } from "../../src/kernel/system-clock.ts";
import type { NetlinkMessage } from "../../src/netlink/message.ts";
import type { Command, Transaction } from "../../src/nft/ast/json.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { elementsOf } from "../support/netlink-socket.ts";

/** The messages and end of a listener. */
interface Heard {
  readonly events: NetlinkEvents;
  readonly messages: NetlinkMessage[];
  readonly reasons: unknown[];
}

const stops: (() => void)[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
});

function listen(parts: Partial<NetlinkEventsParts> = {}): Heard {
  const messages: NetlinkMessage[] = [];
  const reasons: unknown[] = [];
  const events = netlinkEvents({
    clock: systemClock,
    ping: REQUESTS.generation(),
    onMessage: (message) => messages.push(message),
    onEnd: (reason) => reasons.push(reason),
    ...parts,
  });
  stops.push(() => events.stop());
  return { events, messages, reasons };
}

async function nft(text: string): Promise<void> {
  const { stderr } = await runProcess("nft", ["-f", "-"], text, {
    timeoutMs: 60_000,
    maxOutputBytes: 100_000,
  });
  expect(stderr).toBe("");
}

/** Returns the port ids of the commits, in order. */
function committers({ messages, events }: Heard): number[] {
  return messages.flatMap((message) =>
    message.kind === "generation" && message.portId !== events.pid ? [message.portId] : [],
  );
}

beforeEach(() =>
  nft("add table ip events; add set ip events ports { type mark; }; flush set ip events ports"),
);

function elements(count: number): string {
  return `add element ip events ports { ${Array.from({ length: count }, (_, index) => index).join(", ")} }`;
}

describe("netlinkEvents", () => {
  test("receives the first commit after it is ready", async () => {
    const heard = listen();
    await heard.events.ready;
    await nft("add element ip events ports { 1 }");
    await expect.poll(() => committers(heard)).toHaveLength(1);
    expect(elementsOf(heard.messages)).toHaveLength(1);
    expect(heard.reasons).toEqual([]);
  });

  test("reports nothing after a stop", async () => {
    const heard = listen();
    const { pid = 0 } = heard.events;
    heard.events.stop();
    expect(await heard.events.ready).toBe(false);
    await expect.poll(() => isRunning(pid)).toBe(false);
    expect([heard.messages, heard.reasons]).toEqual([[], []]);
  });

  test("ends after the kernel dropped a notification", async () => {
    const heard = listen({ bufferBytes: 4096 });
    await heard.events.ready;
    process.kill(heard.events.pid ?? 0, "SIGSTOP");
    await nft(elements(20_000));
    expect(heard.reasons).toEqual([]);
    process.kill(heard.events.pid ?? 0, "SIGCONT");
    await expect.poll(() => heard.reasons).toHaveLength(1);
    const message = "lost notifications of nftables: the kernel's buffer was full";
    expect(heard.reasons).toMatchObject([{ code: "HOST", message }]);
  });

  test("receives 100,000 elements of one commit, even if it reads nothing during the commit", async () => {
    const heard = listen();
    await heard.events.ready;
    process.kill(heard.events.pid ?? 0, "SIGSTOP");
    await nft(elements(100_000));
    process.kill(heard.events.pid ?? 0, "SIGCONT");
    await expect.poll(() => elementsOf(heard.messages).length).toBe(100_000);
    expect(heard.reasons).toEqual([]);
  });

  test("ends when socat is killed", async () => {
    const heard = listen();
    await heard.events.ready;
    process.kill(heard.events.pid ?? 0, "SIGKILL");
    await expect
      .poll(() => heard.reasons)
      .toMatchObject([{ message: expect.stringContaining("ended by SIGKILL") }]);
  });

  test("ends when nothing answers a ping for 5 s", async () => {
    const clock = new ManualClock();
    const heard = listen({ clock });
    await heard.events.ready;
    clock.advance(9_999);
    const answers = heard.messages.length;
    clock.advance(1);
    await expect.poll(() => heard.messages.length).toBe(answers + 1);
    process.kill(heard.events.pid ?? 0, "SIGSTOP");
    clock.advance(14_999);
    expect(heard.reasons).toEqual([]);
    clock.advance(1);
    expect(heard.reasons).toMatchObject([{ message: expect.stringContaining("did not answer within 5 s") }]);
    expect(clock.timers).toBe(0);
    await expect.poll(() => isRunning(heard.events.pid ?? 0)).toBe(false);
  });

  test("reports that socat is missing", async () => {
    const heard = listen({ socat: "/nonexistent/socat" });
    const error = {
      code: "HOST",
      message: "cannot start /nonexistent/socat (ENOENT)",
      hint: expect.stringContaining("install the package socat"),
    };
    expect(await heard.events.ready).toBe(false);
    expect(heard.reasons).toMatchObject([error]);
  });

  test("listens even if it may not exceed the host's limit of buffers", async () => {
    const directory = mkdtempSync(join(tmpdir(), "netlink-events-"));
    const socat = join(directory, "socat");
    writeFileSync(socat, '#!/bin/sh\nexec unshare --user --map-root-user --net socat "$@"\n');
    chmodSync(socat, 0o755);
    const heard = listen({ socat });
    expect(await heard.events.ready).toBe(true);
    expect(heard.reasons).toEqual([]);
    rmSync(directory, { recursive: true });
  });

  test("says which right is missing", async () => {
    const directory = mkdtempSync(join(tmpdir(), "netlink-events-"));
    const socat = join(directory, "socat");
    writeFileSync(socat, '#!/bin/sh\nexec setpriv --bounding-set=-all --inh-caps=-all socat "$@"\n');
    chmodSync(socat, 0o755);
    const heard = listen({ socat });
    expect(await heard.events.ready).toBe(false);
    expect(heard.reasons).toMatchObject([
      {
        message: expect.stringContaining("Operation not permitted"),
        hint: "run as root or with CAP_NET_ADMIN",
      },
    ]);
    rmSync(directory, { recursive: true });
  });

  test("leaves no socat behind if its process is killed", async () => {
    const script = `import { netlinkEvents } from "./src/kernel/netlink-events.ts";
      import { REQUESTS } from "./src/kernel/netlink-requests.ts";
      import { systemClock } from "./src/kernel/system-clock.ts";
      const ping = REQUESTS.generation();
      const events = netlinkEvents({ clock: systemClock, ping, onMessage() {}, onEnd() {} });
      await events.ready;
      console.log(events.pid);
      process.kill(process.pid, "SIGKILL");`;
    const { stdout, signal } = await execa("node", ["--import", "tsx", "--input-type=module", "-e", script], {
      reject: false,
    });
    expect(signal).toBe("SIGKILL");
    expect(Number(stdout)).toBeGreaterThan(0);
    await expect.poll(() => isRunning(Number(stdout))).toBe(false);
  });
});

test("a listener notices the answer to its ping although another socket has the port id of its socat", async () => {
  const directory = mkdtempSync(join(tmpdir(), "netlink-events-"));
  const socat = join(directory, "socat");
  const port = "x0000$(printf %08x $$ | sed -E 's/(..)(..)(..)(..)/\\4\\3\\2\\1/')00000000";
  const taken = `socat -u -T 2 SOCKET-DATAGRAM:16:3:12:x00000000000000000000,bind=${port} /dev/null`;
  writeFileSync(socat, `#!/bin/sh\n${taken} < /dev/null > /dev/null 2>&1 &\nsleep 0.1\nexec socat "$@"\n`);
  chmodSync(socat, 0o755);
  const messages: NetlinkMessage[] = [];
  const listener = netlinkListener(
    systemClock,
    socat,
  )({
    onMessage: (message) => messages.push(message),
    wantsElements: () => true,
    onHostChange: () => {},
    onEnd: (error) => expect.unreachable(String(error)),
  });
  stops.push(() => listener.stop());
  expect(await listener.ready).toBe(true);
  await listener.ping();
  expect(messages).toEqual([]);
  rmSync(directory, { recursive: true });
});

test("a listener ends if a notification of the host cannot be read", async () => {
  const directory = mkdtempSync(join(tmpdir(), "netlink-events-"));
  const socat = join(directory, "socat");
  // Sixteen bytes of a message that is too short for its own header.
  const isOfHost =
    'for last; do :; done; case "$last" in SOCKET-DATAGRAM:16:3:0:*) printf "%016d" 0 | tr 0 "\\000"; exec sleep 60;; esac';
  writeFileSync(socat, `#!/bin/sh\n${isOfHost}\nexec socat "$@"\n`);
  chmodSync(socat, 0o755);
  const reasons: unknown[] = [];
  const listener = netlinkListener(
    systemClock,
    socat,
  )({
    onMessage: () => {},
    wantsElements: () => true,
    onHostChange: () => {},
    onEnd: (error) => reasons.push(error),
  });
  stops.push(() => listener.stop());
  expect(await listener.ready).toBe(false);
  expect(reasons).toMatchObject([
    { code: "HOST", message: "cannot read the kernel's notifications: message of 0 bytes" },
  ]);
  rmSync(directory, { recursive: true });
});

describe("OwnCommits", () => {
  const transaction = (count: number): Transaction => ({
    nftables: [
      { add: { table: { family: "ip", name: "nft-proxy" } } },
      { flush: { table: { family: "ip", name: "nft-proxy" } } },
      ...Array.from({ length: count }, (_, at) => chain(`own-${at}-${"x".repeat(60)}`)),
    ],
  });
  const chain = (name: string): Command => ({ add: { chain: { family: "ip", table: "nft-proxy", name } } });

  test("recognises our commit, and not another program's", async () => {
    const heard = listen();
    await heard.events.ready;
    const own = daemonNft("nft", new ManualClock(), undefined);
    stops.push(() => own.close());
    await own.nft.apply(transaction(1));
    await nft("add element ip events ports { 7 }");
    await expect.poll(() => committers(heard)).toHaveLength(2);
    expect(committers(heard).map((portId) => own.ownCommits.take(portId))).toEqual([true, false]);
  });

  test("recognises the commit of a spare process, and of one with limited memory", async () => {
    const heard = listen();
    await heard.events.ready;
    const clock = new ManualClock();
    const own = daemonNft("nft", clock, 4_000_000_000);
    stops.push(() => own.close());
    await own.nft.apply(transaction(1));
    clock.advance(3);
    await own.nft.apply(transaction(2));
    clock.advance(3);
    // Transactions of more than a megabyte are sent to an nft that prlimit starts.
    await own.nft.apply(transaction(9_000));
    await expect.poll(() => committers(heard)).toHaveLength(3);
    expect(committers(heard).map((portId) => own.ownCommits.take(portId))).toEqual([true, true, true]);
  });
});

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
