import { createSocket, type Socket } from "node:dgram";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execaSync } from "execa";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { type CleaningReport, StaleFlowCleaner } from "../../src/conntrack/stale-flow-cleaner.ts";
import { conntrackTable, EVERYWHERE, type Flow, type FlowPlace } from "../../src/kernel/conntrack.ts";
import { systemClock } from "../../src/kernel/system-clock.ts";
import type { Objects } from "../support/build.ts";
import { memoryLogger } from "../support/memory-logger.ts";
import { PATIENCE } from "../support/patience.ts";
import { dns, UdpNode } from "../support/udp-node.ts";

const families = [
  { family: "ip", type: "udp4", vip: "10.96.0.10", a: "127.0.0.11", b: "127.0.0.12" },
  { family: "ip6", type: "udp6", vip: "fd00:96::10", a: "fd00:11::1", b: "fd00:12::1" },
] as const;

const SYSCTL = "/proc/sys/net/netfilter/";
const sockets: Socket[] = [];

function bind(type: "udp4" | "udp6", address: string | undefined, port: number): Promise<Socket> {
  const socket = createSocket(type);
  sockets.push(socket);
  return new Promise((resolve) => socket.bind(port, address, () => resolve(socket)));
}

/** A server that answers with its name. */
async function serve(type: "udp4" | "udp6", address: string, name: string): Promise<void> {
  const socket = await bind(type, address, 5300);
  socket.on("message", (_, from) => socket.send(name, from.port, from.address));
}

/** Returns the name of the server that answers, or "nobody" after a time that is long for loopback. */
function ask(client: Socket, address: string): Promise<string> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve("nobody"), 1000);
    client.once("message", (message) => {
      clearTimeout(timer);
      resolve(String(message));
    });
    client.send("?", 53, address);
  });
}

function balanceTo(family: "ip" | "ip6", vip: string, server: string | undefined): void {
  const rule = server === undefined ? "" : `${family} daddr ${vip} udp dport 53 dnat to ${server}:5300`;
  const chain = "type nat hook output priority -100;";
  execaSync("nft", ["-f", "-"], {
    input: `table ${family} conntrack-test\ndelete table ${family} conntrack-test
      table ${family} conntrack-test { chain out { ${chain} ${rule} ; }; }`,
  });
}

function makeCleaner(socat?: string) {
  const reports: CleaningReport[] = [];
  const logger = memoryLogger();
  const node = new UdpNode();
  const cleaner = new StaleFlowCleaner({
    table: conntrackTable(systemClock, socat),
    frontends: node.frontends,
    nodePortHosts: () => new Set<string>(),
    localAddresses: () => [],
    clock: systemClock,
    logger,
    onCleaned: (report) => reports.push(report),
  });
  const clean = (objects: Objects) => cleaner.clean(node.sync(objects));
  return { clean, reports, logger };
}

function flowIds(vip: string): string[] {
  const family = vip.includes(":") ? "ipv6" : "ipv4";
  const { stdout } = execaSync("conntrack", ["-L", "-f", family, "-p", "udp", "--orig-dst", vip, "-o", "id"]);
  return [...stdout.matchAll(/id=(\d+)/g)].map(([, id]) => id ?? "").sort();
}

beforeEach(() => {
  for (const { vip, a, b } of families) {
    for (const address of [vip, a, b]) {
      // The frontends have a route, so untranslated packets are sent and tracked. On a busy machine, a new
      // IPv6 address is tentative for a moment, and cannot be bound.
      const [length, flags] = address.includes(":") ? [128, ["nodad"]] : [32, []];
      execaSync("ip", ["addr", "replace", `${address}/${length}`, "dev", "lo", ...flags]);
    }
  }
});

afterEach(() => {
  for (const socket of sockets.splice(0)) socket.close();
  for (const { family, vip, a, b } of families) {
    execaSync("nft", ["-f", "-"], {
      input: `table ${family} conntrack-test\ndelete table ${family} conntrack-test`,
    });
    for (const address of [vip, a, b]) {
      execaSync("ip", ["addr", "del", `${address}/${address.includes(":") ? 128 : 32}`, "dev", "lo"]);
    }
  }
  execaSync("conntrack", ["-F"], { reject: false });
});

describe.each(families)("stale UDP flows ($family)", ({ family, type, vip, a, b }) => {
  const at = (address: string) => (family === "ip6" ? `[${address}]` : address);

  test("of a removed endpoint are deleted, so the client moves to another endpoint and other clients stay", async () => {
    await serve(type, a, "a");
    await serve(type, b, "b");
    const { clean, reports } = makeCleaner();
    balanceTo(family, vip, at(b));
    const staying = await bind(type, undefined, 0);
    expect(await ask(staying, vip)).toBe("b");
    const before = flowIds(vip);
    balanceTo(family, vip, at(a));
    const client = await bind(type, undefined, 0);
    expect(await ask(client, vip)).toBe("a");
    await clean(dns(vip, a, b));
    expect(reports.at(-1)?.deleted[family]).toBe(0);

    balanceTo(family, vip, at(b));
    expect(await ask(client, vip)).toBe("a");
    await clean(dns(vip, b));
    expect(reports.at(-1)?.deleted[family]).toBe(1);
    expect(await ask(client, vip)).toBe("b");
    expect(flowIds(vip)).toEqual(expect.arrayContaining(before));
  });

  test("of a removed Service, and of a client that sent before there was an endpoint, are deleted", async () => {
    await serve(type, a, "a");
    const { clean, reports } = makeCleaner();
    const client = await bind(type, undefined, 0);
    balanceTo(family, vip, undefined);
    execaSync("nft", [`add chain ${family} conntrack-test in { type filter hook input priority 0; }`]);
    execaSync("nft", [`add rule ${family} conntrack-test in ct state new udp dport 53 accept`]);
    expect(await ask(client, vip)).toBe("nobody");
    expect(flowIds(vip)).toHaveLength(1);
    await clean(dns(vip));
    expect(reports.at(-1)?.deleted[family]).toBe(0);

    balanceTo(family, vip, at(a));
    await clean(dns(vip, a));
    expect(reports.at(-1)?.deleted[family]).toBe(1);
    expect(await ask(client, vip)).toBe("a");
    await clean({});
    expect(reports.at(-1)?.deleted[family]).toBe(1);
    expect(flowIds(vip)).toEqual([]);
  });
});

test("stale UDP flows are deleted without another change, once a failing socat works again", async () => {
  const [{ family, type, vip, a, b }] = families;
  await serve(type, a, "a");
  await serve(type, b, "b");
  const directory = mkdtempSync(join(tmpdir(), "socat-"));
  const [path, fault] = [join(directory, "socat"), join(directory, "fault")];
  writeFileSync(path, `#!/bin/sh\n[ -e ${fault} ] && exit 1\nexec socat "$@"\n`, { mode: 0o755 });
  const { clean, reports } = makeCleaner(path);
  balanceTo(family, vip, a);
  const client = await bind(type, undefined, 0);
  expect(await ask(client, vip)).toBe("a");
  await clean(dns(vip, a));
  writeFileSync(fault, "");
  balanceTo(family, vip, b);
  await clean(dns(vip, b));
  expect([reports.length, await ask(client, vip)]).toEqual([1, "a"]);
  rmSync(fault);
  await vi.waitFor(() => expect(reports).toHaveLength(2), PATIENCE);
  expect(await ask(client, vip)).toBe("b");
  rmSync(directory, { recursive: true });
});

test("stale UDP flows cause one warning and no failure without socat", async () => {
  const { clean, logger } = makeCleaner("/nonexistent/socat");
  await clean(dns("10.96.0.10"));
  await clean(dns("10.96.0.10"));
  const lines = logger.lines.filter(({ level }) => level !== "debug");
  expect(lines).toMatchObject([
    { level: "warn", fields: { error: "cannot start /nonexistent/socat (ENOENT)" } },
  ]);
});

/** Adds entries to the conntrack table, by lines of arguments for conntrack. */
function load(lines: readonly string[]): void {
  const file = join(tmpdir(), `flows-${process.pid}`);
  writeFileSync(file, lines.join(""));
  execaSync("conntrack", ["--load-file", file]);
  rmSync(file);
}

describe("the conntrack table by netlink", () => {
  const [{ vip }, { vip: vip6 }] = families;
  const table = conntrackTable(systemClock);
  /** Adds flows from port 9, 11, 13 and so on to port 53 of an address. */
  const add = (to: string, from: string, count: number, ...more: readonly string[]) => {
    const lines = Array.from({ length: count }, (_, index) => {
      const ports = `--sport ${9 + 2 * index} --dport 53`;
      return `-I -p udp -s ${from} -d ${to} ${ports} -t 300 ${more.join(" ")}\n`;
    });
    load(lines);
  };
  const listed = async (...places: readonly FlowPlace[]) => {
    const flows: Flow[] = [];
    for await (const flow of table.list("udp", places)) flows.push(flow);
    return flows;
  };

  test("has the flows of both families, with their ids and zones", async () => {
    add(vip, "192.0.2.9", 1);
    add(vip6, "2001:db8::9", 1);
    add(vip, "192.0.2.9", 1, "-w", "7");
    const flows = (await listed(...EVERYWHERE)).sort((a, b) => (a.zone ?? 0) - (b.zone ?? 0));
    expect(flows).toMatchObject([
      { protocol: "udp", client: { address: "192.0.2.9", port: 9 }, destination: { address: vip, port: 53 } },
      { client: { address: "2001:db8::9", port: 9 }, destination: { address: vip6 }, zone: undefined },
      { replySource: { address: vip, port: 53 }, zone: 7 },
    ]);
    expect(flows.map(({ id }) => String(id >>> 0)).sort()).toEqual(
      [...flowIds(vip), ...flowIds(vip6)].sort(),
    );
  });

  test("has the protocol, state, timeout and mark of each flow, and what it counts", async () => {
    for (const name of ["acct", "timestamp"]) writeFileSync(`${SYSCTL}nf_conntrack_${name}`, "1");
    const entry = (protocol: string, port: number, more = "") =>
      `-I -p ${protocol} -s 192.0.2.9 -d ${vip} -r 10.244.1.5 -q 192.0.2.1 --sport ${port} --dport 80 ` +
      `--reply-port-src 8080 --reply-port-dst ${port} -t 300 ${more}\n`;
    load([
      entry("tcp", 9, "--state TIME_WAIT -u SEEN_REPLY,ASSURED -m 7"),
      entry("sctp", 9, "--state SHUTDOWN_SENT --orig-vtag 1 --reply-vtag 2"),
      entry("udp", 9),
      entry("udp", 11, "-u SEEN_REPLY"),
      entry("udp", 13, "-u SEEN_REPLY,ASSURED"),
      "-I -p icmp -s 192.0.2.9 -d 192.0.2.1 -r 192.0.2.1 -q 192.0.2.9 --icmp-type 8 --icmp-code 0 --icmp-id 1 -t 300\n",
    ]);
    const flows: Flow[] = [];
    for await (const flow of table.list(undefined, EVERYWHERE)) flows.push(flow);
    expect(flows.map(({ protocol, state }) => `${protocol} ${state}`).sort()).toEqual([
      "sctp shutdown_sent",
      "tcp time_wait",
      "udp assured",
      "udp replied",
      "udp unreplied",
    ]);
    const [tcp] = flows.filter(({ protocol }) => protocol === "tcp");
    expect(tcp).toMatchObject({
      client: { address: "192.0.2.9", port: 9 },
      destination: { address: vip, port: 80 },
      replySource: { address: "10.244.1.5", port: 8080 },
      replyDestination: { address: "192.0.2.1", port: 9 },
      mark: 7,
      sent: { packets: 0, bytes: 0 },
      received: { packets: 0, bytes: 0 },
    });
    expect(tcp?.remaining).toBeGreaterThan(200);
    expect(Math.abs(Date.now() - (tcp?.startedAt ?? 0))).toBeLessThan(60_000);
  });

  test.each([
    ["of the client's packets", ["--orig-zone", "7"], 7],
    ["of the answers", ["--reply-zone", "7"], undefined],
  ])("has flows with a zone only %s, reads them again and expires them", async (_, zoned, zone) => {
    for (const { vip: to } of families) {
      add(to, to.includes(":") ? "2001:db8::9" : "192.0.2.9", 1);
      add(to, to.includes(":") ? "2001:db8::a" : "192.0.2.10", 1, ...zoned);
    }
    const flows = await listed(...EVERYWHERE);
    const ofZone = flows.filter(({ client }) => ["192.0.2.10", "2001:db8::a"].includes(client.address));
    expect([flows.length, ...ofZone.map((flow) => flow.zone)]).toEqual([4, zone, zone]);
    expect((await table.current(ofZone)).map(({ id }) => id)).toEqual(ofZone.map(({ id }) => id));
    await table.expireFlows(ofZone);
    expect(await listed(...EVERYWHERE)).toHaveLength(2);
  });

  test("is filtered in the kernel, by address and by port", async () => {
    for (const { vip: to, a } of families) {
      const from = to.includes(":") ? "2001:db8::9" : "192.0.2.9";
      add(to, from, 3);
      add(a, from, 2);
    }
    const count = async (place: FlowPlace) => (await listed(place)).length;
    expect(await count({ family: "ip", address: vip })).toBe(3);
    expect(await count({ family: "ip", port: 53 })).toBe(5);
    expect(await count({ family: "ip6", port: 53 })).toBe(5);
    expect(await count({ family: "ip6", port: 54 })).toBe(0);
  });

  test("loses thousands of flows at once, also some that have ended", async () => {
    add(vip, "192.0.2.9", 3000);
    add(vip6, "2001:db8::9", 10, "-w", "7");
    const flows = await listed(...EVERYWHERE);
    expect(flows).toHaveLength(3010);
    await table.expireFlows(flows);
    expect(await listed(...EVERYWHERE)).toEqual([]);
    await table.expireFlows(flows);
  });
});
