import { describe, expect, test } from "vitest";
import {
  type ConntrackTimeouts,
  conntrackTimeouts,
  idleness,
} from "../../../../src/inspect/connections/idleness.ts";
import { FakeHostFiles } from "../../../support/fake-host-files.ts";

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
