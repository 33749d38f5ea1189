import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type ConntrackTimeouts,
  conntrackTimeouts,
  idleness,
  parseConnection,
  translatedConnections,
} from "../../../src/kernel/tracked-connections.ts";
import { FakeHostFiles } from "../../support/fake-host-files.ts";

const REPLY = "src=10.244.1.5 dst=10.244.1.9 sport=8080 dport=20002";
const FORWARD = "src=10.244.1.9 dst=10.96.0.10 sport=20002 dport=80";
const ENDS = {
  client: { address: "10.244.1.9", port: 20002 },
  destination: { address: "10.96.0.10", port: 80 },
  replySource: { address: "10.244.1.5", port: 8080 },
};

describe("parseConnection", () => {
  test.each([
    [
      `tcp      6 431999 ESTABLISHED ${FORWARD} ${REPLY} [ASSURED] mark=0 use=1`,
      "tcp",
      "established",
      431_999,
    ],
    [`tcp      6 9 CLOSE ${FORWARD} ${REPLY} [ASSURED] mark=0 use=1`, "tcp", "close", 9],
    [`tcp      6 119 SYN_SENT ${FORWARD} [UNREPLIED] ${REPLY} mark=0 use=1`, "tcp", "syn_sent", 119],
    [`tcp      6 ${FORWARD} ${REPLY} [OFFLOAD] mark=0 use=2`, "tcp", "offloaded", undefined],
    [`tcp      6 ${FORWARD} ${REPLY} [HW_OFFLOAD] mark=0 use=2`, "tcp", "offloaded", undefined],
    [`udp      17 29 ${FORWARD} [UNREPLIED] ${REPLY} mark=0 use=1`, "udp", "unreplied", 29],
    [`udp      17 29 ${FORWARD} ${REPLY} mark=0 use=1`, "udp", "replied", 29],
    [
      `udp      17 119 ${FORWARD} packets=3 bytes=99 ${REPLY} packets=2 bytes=70 [ASSURED] mark=0 use=1`,
      "udp",
      "assured",
      119,
    ],
    [
      `sctp     132 431 ESTABLISHED ${FORWARD} ${REPLY} [ASSURED] mark=0 zone=1 use=1`,
      "sctp",
      "established",
      431,
    ],
  ])('reads "%s"', (line, protocol, state, remaining) => {
    expect(parseConnection(line)).toEqual({ protocol, state, remaining, ...ENDS });
  });

  test("parses lines with any addresses, ports, states and times", () => {
    const address = fc.oneof(fc.ipV4(), fc.ipV6());
    const port = fc.integer({ min: 0, max: 65_535 });
    const end = fc.record({ address, port });
    const state = fc.constantFrom("SYN_SENT", "ESTABLISHED", "TIME_WAIT", "SYN_SENT2", "NONE");
    const counts = fc.constantFrom("", "packets=3 bytes=99 ");
    fc.assert(
      fc.property(
        end,
        end,
        end,
        state,
        fc.nat(),
        counts,
        (client, destination, replySource, name, remaining, count) => {
          const line =
            `tcp      6 ${remaining} ${name} src=${client.address} dst=${destination.address} sport=${client.port} ` +
            `dport=${destination.port} ${count}src=${replySource.address} dst=${client.address} ` +
            `sport=${replySource.port} dport=${client.port} ${count}[ASSURED] mark=0 use=1`;
          const wanted = {
            protocol: "tcp",
            state: name.toLowerCase(),
            client,
            destination,
            replySource,
            remaining,
          };
          expect(parseConnection(line)).toEqual(wanted);
        },
      ),
    );
  });

  test("returns undefined for any other line, and never throws", () => {
    const words = fc.constantFrom(
      "tcp",
      "udp",
      "6",
      "17",
      "9",
      "CLOSE",
      "src=1.2.3.4",
      "dst=::1",
      "sport=1",
      "dport=",
    );
    const garbage = fc.array(fc.oneof(words, fc.string()), { maxLength: 12 }).map((parts) => parts.join(" "));
    fc.assert(
      fc.property(garbage, (line) => {
        expect(parseConnection(line)).toBeUndefined();
      }),
    );
    expect(
      parseConnection("conntrack v1.4.8 (conntrack-tools): 2 flow entries have been shown."),
    ).toBeUndefined();
    expect(parseConnection("icmp     1 29 src=10.0.0.1 dst=10.0.0.2 type=8 code=0 id=1")).toBeUndefined();
  });
});

describe("translatedConnections", () => {
  test("lists the connections of one client only, and ignores other lines", async () => {
    const calls: string[] = [];
    const stream = async function* (path: string, args: readonly string[]) {
      calls.push([path, ...args].join(" "));
      yield* ["", `tcp      6 9 CLOSE ${FORWARD} ${REPLY} mark=0 use=1`, "nonsense"];
    };
    const states = [];
    for await (const { state } of translatedConnections("10.244.1.9", stream)) states.push(state);
    expect(states).toEqual(["close"]);
    expect(calls).toEqual(["conntrack -L -f ipv4 --dst-nat --orig-src 10.244.1.9"]);
  });

  test("lists each family separately without a client", async () => {
    const calls: string[] = [];
    const stream = async function* (_path: string, args: readonly string[]) {
      calls.push(args.join(" "));
      yield "";
    };
    for await (const connection of translatedConnections(undefined, stream))
      expect(connection).toBeUndefined();
    expect(calls).toEqual(["-L -f ipv4 --dst-nat", "-L -f ipv6 --dst-nat"]);
  });
});

describe("the idle time", () => {
  const timeouts: ConntrackTimeouts = new Map([
    ["tcp_timeout_established", 86_400],
    ["tcp_timeout_time_wait", 120],
    ["tcp_timeout_unacknowledged", 300],
    ["tcp_timeout_max_retrans", 300],
    ["udp_timeout", 30],
    ["udp_timeout_stream", 120],
  ]);

  test.each([
    ["tcp", "established", 86_399, { seconds: 1, unacknowledged: false }],
    ["tcp", "established", 299, { seconds: 1, unacknowledged: false }],
    ["tcp", "established", 280, { seconds: 20, unacknowledged: true }],
    ["tcp", "time_wait", 20, { seconds: 100, unacknowledged: false }],
    ["tcp", "time_wait", 200, { seconds: 0, unacknowledged: false }],
    ["tcp", "syn_sent", 100, undefined],
    ["udp", "assured", 100, { seconds: 20, unacknowledged: false }],
    ["udp", "replied", 10, { seconds: 20, unacknowledged: false }],
    ["tcp", "offloaded", undefined, undefined],
  ] as const)("of %s %s with %s s left is %o", (protocol, state, remaining, wanted) => {
    expect(idleness({ protocol, state, remaining }, timeouts)).toEqual(wanted);
  });

  test("is computed from the kernel's timeouts, except missing ones", async () => {
    const files = new FakeHostFiles({ "/proc/sys/net/netfilter/nf_conntrack_udp_timeout": "30\n" });
    expect(await conntrackTimeouts(files)).toEqual(new Map([["udp_timeout", 30]]));
  });
});
