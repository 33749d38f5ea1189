import { describe, expect, test } from "vitest";
import { command } from "../../../src/features/observe/command.ts";
import type { CommandHost } from "../../../src/features/seam/command.ts";
import { flow } from "../../support/fake-flow-table.ts";
import { schemaErrors } from "../../support/output-schema.ts";
import { commandHost, NOW, REFUSAL } from "./command-host.ts";

const SYSCTL = "/proc/sys/net/netfilter/nf_conntrack_";
const OFF = { [`${SYSCTL}events`]: "0\n", [`${SYSCTL}acct`]: "0\n", [`${SYSCTL}timestamp`]: "0\n" };

async function printed(host: CommandHost): Promise<string[]> {
  const lines: string[] = [];
  for await (const line of (await command.run(host)).lines) lines.push(line);
  return lines;
}

const [SENT, RECEIVED] = [
  { packets: 6, bytes: 412 },
  { packets: 5, bytes: 1204 },
];
const OPEN = flow({ startedAt: NOW - 90_500, sent: SENT, received: RECEIVED });
const MASQUERADED = flow({
  client: { address: "192.0.2.77", port: 4000 },
  replyDestination: { address: "192.0.2.2", port: 31_000 },
  replySource: { address: "10.244.1.99", port: 8080 },
});

describe("observe", () => {
  test.each([
    ["an unknown verdict", { verdict: "allowed" }, "--verdict must be served or refused"],
    ["no rate", { rate: "0" }, "--rate must be a number from 1 to 100000"],
    ["a rate beyond the maximum", { rate: "100001" }, "--rate must be"],
  ])("refuses %s", async (_, flags, message) => {
    await expect(command.run(commandHost({ flags }).host)).rejects.toThrow(message);
  });

  test("lists open connections, refusals and a summary, by names where there are some", async () => {
    const { host, table } = commandHost({ refusals: [[REFUSAL]] });
    const direct = flow({ destination: { address: "10.244.1.5", port: 8080 } });
    table.flows = [OPEN, MASQUERADED, flow({ state: "time_wait" }), direct];
    expect(await printed(host)).toEqual([
      "11:58:29.500 open shop/job-7 to default/web port http, endpoint default/web-1: established, 1m30s, 412 B sent, 1204 B received",
      "- open 192.0.2.77:4000 to default/web port http, endpoint 10.244.1.99:8080, vanished: established",
      "11:59:58.000 refused shop/job-7 to shop/jobs port 80: 3 packets: no endpoint",
      "11:59:50.000 refused 192.0.2.1 to shop/jobs port 80: 1 packet: no endpoint",
      "connections: 2 open; 4 packets refused",
      "  1 connection to no Service not shown",
      "  most active services:",
      "    default/web:http/tcp: 2 connections, 412 B sent, 1204 B received",
      "  most active clients:",
      "    10.244.1.9 shop/job-7: 1 connection, 412 B sent, 1204 B received",
      "    192.0.2.77: 1 connection, 0 B sent, 0 B received",
      "  most active endpoints:",
      "    10.244.1.5:8080: 1 connection, 412 B sent, 1204 B received",
      "    10.244.1.99:8080: 1 connection, 0 B sent, 0 B received",
    ]);
  });

  test("adds addresses, packets and nodes with -o wide", async () => {
    const { host, table } = commandHost({ format: "wide", refusals: [[REFUSAL]] });
    table.flows = [OPEN, MASQUERADED];
    expect((await printed(host)).slice(0, 3)).toEqual([
      "11:58:29.500 open shop/job-7 (10.244.1.9:20002) to default/web port http (10.96.0.10:80/tcp), endpoint default/web-1 (10.244.1.5:8080), on node-2: established, 1m30s, 412 B in 6 packets sent, 1204 B in 5 packets received",
      "- open 192.0.2.77:4000 to default/web port http (10.96.0.10:80/tcp), endpoint 10.244.1.99:8080, vanished, as 192.0.2.2:31000: established",
      "11:59:58.000 refused shop/job-7 (10.244.1.9) to shop/jobs port 80 (10.96.0.11:80/tcp): 3 packets: no endpoint",
    ]);
  });

  test.each([
    ["served", ["open", "summary"]],
    ["refused", ["refused", "refused", "summary"]],
  ])("--verdict=%s shows only these, as JSON that matches the schema", async (verdict, events) => {
    const { host, table } = commandHost({ flags: { verdict }, format: "json", refusals: [[REFUSAL]] });
    table.flows = [OPEN];
    const lines = (await printed(host)).map((line) => JSON.parse(line));
    expect(lines.map(({ event }) => event)).toEqual(events);
    for (const line of lines) expect(schemaErrors("observe", line)).toEqual([]);
  });

  test("has the kernel select the connections of a Service, and all of the family of an address", async () => {
    const places = async (subject: CommandHost["subject"]) => {
      const { host, table } = commandHost({ subject });
      await printed(host);
      return table.places;
    };
    const of = (wanted: string) => places({ isMeant: ({ service: { name } }) => name === wanted });
    expect(await of("default/web")).toEqual([{ family: "ip", address: "10.96.0.10" }]);
    // Connections to a NodePort have any address.
    expect(await of("shop/jobs")).toEqual([{ family: "ip" }, { family: "ip6" }]);
    expect(await places({ address: "10.244.1.9" })).toEqual([{ family: "ip" }]);
    expect(await places({})).toEqual([{ family: "ip" }, { family: "ip6" }]);
  });

  test("says what the kernel does not report", async () => {
    const notices = async (flags: Readonly<Record<string, string | true>>) =>
      (await command.run(commandHost({ flags, files: OFF }).host)).notices;
    expect(await notices({})).toEqual([
      "note: no connection is reported: nf_conntrack_events is off (sysctl -w net.netfilter.nf_conntrack_events=1)",
      "note: bytes are not counted: nf_conntrack_acct is off (sysctl -w net.netfilter.nf_conntrack_acct=1, or run the daemon with --observe=accounting)",
      "note: durations are unknown: nf_conntrack_timestamp is off (sysctl -w net.netfilter.nf_conntrack_timestamp=1, or run the daemon with --observe=accounting)",
    ]);
    expect(await notices({ verdict: "refused" })).toEqual([]);
  });
});

describe("observe --follow", () => {
  const follow = { follow: true } as const;

  test("prints connections as they begin and end, new refusals, and a summary when interrupted", async () => {
    const { host, clock, listener, table, interrupt } = commandHost({
      flags: follow,
      refusals: [[REFUSAL], [REFUSAL]],
    });
    const { lines, notices } = await command.run(host);
    expect(notices).toEqual(["note: 100 lines a second at most; Ctrl-C ends it"]);
    listener.report("created", flow({ state: "syn_sent" }));
    listener.report("changed", flow({ state: "established" }));
    table.flows = [{ ...OPEN, state: "time_wait" }];
    listener.report("changed", flow({ state: "time_wait" }));
    listener.dropped = 3;
    await new Promise((resolve) => setImmediate(resolve));
    interrupt();
    clock.advance(20);
    const all: string[] = [];
    for await (const line of lines) all.push(line);
    expect(all.slice(0, 7)).toEqual([
      "12:00:00.000 began shop/job-7 to default/web port http, endpoint default/web-1",
      "11:59:58.000 refused shop/job-7 to shop/jobs port 80: 3 packets: no endpoint",
      "11:59:50.000 refused 192.0.2.1 to shop/jobs port 80: 1 packet: no endpoint",
      "12:00:00.000 closed shop/job-7 to default/web port http, endpoint default/web-1: 1m30s, 412 B sent, 1204 B received",
      "connections: 1 began, 1 closed; 4 packets refused in 0s",
      "  3 notifications lost: the kernel's buffer was full",
      "  most active services:",
    ]);
    expect(listener.isHeard).toBe(false);
  });

  test("shows only connections of its subject: an address at either end, or a Service", async () => {
    const events = async (subject: CommandHost["subject"]) => {
      const { host, listener, interrupt } = commandHost({ flags: follow, format: "json", subject });
      const { lines } = await command.run(host);
      listener.report("created", flow({}));
      interrupt();
      const all: string[] = [];
      for await (const line of lines) all.push(JSON.parse(line).event);
      return all.length - 1;
    };
    for (const address of ["10.244.1.9", "10.96.0.10", "10.244.1.5"])
      expect(await events({ address })).toBe(1);
    expect(await events({ address: "10.244.1.6" })).toBe(0);
    expect(await events({ isMeant: ({ service: { name } }) => name === "shop/jobs" })).toBe(0);
  });

  test("asks for newer objects after a connection that they do not explain, at intervals, until there are some", async () => {
    const { host, listener, clock, loads, renew } = commandHost({ flags: follow });
    await command.run(host);
    const loadsAfter = async (milliseconds: number) => {
      clock.advance(milliseconds);
      await new Promise((resolve) => setImmediate(resolve));
      return loads();
    };
    listener.report("created", flow({}));
    expect(await loadsAfter(10_000)).toBe(1);
    listener.report("created", MASQUERADED);
    expect(await loadsAfter(9999)).toBe(1);
    expect(await loadsAfter(1)).toBe(2);
    renew();
    expect(await loadsAfter(10_000)).toBe(3);
    expect(await loadsAfter(10_000)).toBe(3);
  });

  test.each(["text", "json"])("says in its summary why figures could not be read (%s)", async (format) => {
    const { host, clock, listener, table, interrupt } = commandHost({ flags: follow, format });
    const { lines } = await command.run(host);
    table.error = new Error("the kernel's conntrack table: error 1");
    listener.report("changed", flow({ state: "time_wait" }));
    interrupt();
    await new Promise((resolve) => setImmediate(resolve));
    clock.advance(20);
    const all: string[] = [];
    for await (const line of lines) all.push(line);
    if (format === "text")
      expect(all).toContain(
        "  1 connection ended without figures; reading them failed: the kernel's conntrack table: error 1",
      );
    else {
      const summary = JSON.parse(all.at(-1) ?? "");
      expect(summary).toMatchObject({ withoutFigures: 1, figuresFailure: table.error.message });
      expect(schemaErrors("observe", summary)).toEqual([]);
    }
  });

  test("says that it follows only once it knows the earlier refusals, so that later ones are new", async () => {
    const { host } = commandHost({ flags: follow });
    let read: () => void = () => {};
    const reading = new Promise<void>((resolve) => {
      read = resolve;
    });
    const slow: CommandHost = {
      ...host,
      refusals: async function* (stop) {
        await reading;
        yield [];
        await stop;
      },
    };
    let isFollowing = false;
    const started = command.run(slow).then(() => {
      isFollowing = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(isFollowing).toBe(false);
    read();
    await started;
  });

  test("listens no longer once interrupted, although ends still wait for their figures", async () => {
    const { host, clock, listener, interrupt } = commandHost({ flags: follow });
    const { lines } = await command.run(host);
    listener.report("changed", flow({ state: "time_wait" }));
    interrupt();
    await new Promise((resolve) => setImmediate(resolve));
    expect(listener.isHeard).toBe(false);
    clock.advance(20);
    const all: string[] = [];
    for await (const line of lines) all.push(line);
    expect(all[0]).toContain("closed");
  });

  test("ends at once if interrupted while it reads the earlier refusals", async () => {
    const { host, interrupt } = commandHost({ flags: follow });
    const never = new Promise<never>(() => {});
    const starting = command.run({
      ...host,
      refusals: async function* () {
        yield await never;
      },
    });
    interrupt();
    const all: string[] = [];
    for await (const line of (await starting).lines) all.push(line);
    expect(all[0]).toMatch(/^connections: none; 0 packets refused/);
  });

  test("fails without a note of what it follows if it cannot listen", async () => {
    const { host, listener } = commandHost({ flags: follow });
    listener.startFailure = new Error("cannot start socat (ENOENT)");
    await expect(command.run(host)).rejects.toThrow("cannot start socat");
  });

  test("ends with the error that ends the listening", async () => {
    const { host, listener } = commandHost({ flags: follow });
    const { lines } = await command.run(host);
    listener.fail(new Error("cannot read the kernel's notifications: attribute cut off"));
    await expect(lines[Symbol.asyncIterator]().next()).rejects.toThrow("attribute cut off");
  });
});
