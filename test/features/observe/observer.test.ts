import { describe, expect, test } from "vitest";
import { connectionAttribution } from "../../../src/conntrack/connection-attribution.ts";
import {
  ConnectionObserver,
  connectionEnd,
  type End,
  mayMatter,
  type Observation,
} from "../../../src/features/observe/observer.ts";
import type { Flow, FlowChange } from "../../../src/kernel/conntrack.ts";
import { cacheOf, endpoint, port, renderAll, service, slice } from "../../support/build.ts";
import { FakeFlowTable, flow } from "../../support/fake-flow-table.ts";
import { ManualClock } from "../../support/manual-clock.ts";

const NOW = Date.UTC(2026, 10, 20);
const OBJECTS = {
  services: [
    service({ clusterIPs: ["10.96.0.10"], ports: [port(80), port(80, { name: "udp", protocol: "udp" })] }),
  ],
  slices: [slice({ endpoints: [endpoint("10.244.1.5", { pod: "default/web-1" })] })],
};

function observing(options: { readonly hasFigures?: boolean } = {}) {
  const { hasFigures = true } = options;
  const table = new FakeFlowTable();
  const taken: Observation[] = [];
  const failures: string[] = [];
  const attribute = connectionAttribution(renderAll(OBJECTS).state, cacheOf(OBJECTS), new Set());
  const clock = new ManualClock(NOW);
  const observer = new ConnectionObserver({
    clock,
    table,
    failures: { add: (reason) => failures.push(reason), end: () => failures.push("none") },
    attribute,
    isWanted: () => true,
    hasFigures: () => hasFigures,
    take: (observation) => taken.push(observation),
  });
  const told = () => taken.map(({ event }) => event);
  const finish = async () => {
    clock.advance(20);
    await observer.finished();
  };
  return { observer, table, taken, told, failures, finish };
}

type Row = readonly [
  what: string,
  change: FlowChange,
  flow: Pick<Flow, "protocol" | "state" | "isAnswered">,
  end: End | undefined,
];

const tcp = (state: string, isAnswered = true) => ({ protocol: "tcp", state, isAnswered }) as const;
const udp = (isAnswered: boolean) => ({ protocol: "udp", state: "assured", isAnswered }) as const;
const sctp = (state: string, isAnswered = true) => ({ protocol: "sctp", state, isAnswered }) as const;

const ROWS: readonly Row[] = [
  ["a new connection", "created", tcp("syn_sent", false), undefined],
  ["an established connection", "changed", tcp("established"), undefined],
  ["a connection that one end closed", "changed", tcp("fin_wait"), undefined],
  ["a connection that both ends closed", "changed", tcp("time_wait"), "closed"],
  ["a connection that one end reset", "changed", tcp("close"), "reset"],
  ["the deletion of a closed connection", "deleted", tcp("time_wait"), undefined],
  ["the deletion of a reset connection", "deleted", tcp("close"), undefined],
  [
    "the deletion of a connection whose first answer is a reset",
    "deleted",
    tcp("close", false),
    "refused-by-endpoint",
  ],
  ["the deletion of a connection without any answer", "deleted", tcp("syn_sent", false), "unanswered"],
  ["the deletion of a connection whose client went away", "deleted", tcp("syn_recv"), "unanswered"],
  ["the deletion of an idle connection", "deleted", tcp("established"), "expired"],
  ["the deletion of a half closed connection", "deleted", tcp("close_wait"), "expired"],
  ["the deletion of a closed connection, before Linux 5.11", "deleted", tcp("assured"), undefined],
  ["the deletion of an unanswered connection, before 5.11", "deleted", tcp("unreplied", false), "unanswered"],
  ["an answer to a UDP flow", "changed", udp(true), undefined],
  ["the deletion of a UDP flow", "deleted", udp(true), "expired"],
  ["the deletion of a UDP flow without any answer", "deleted", udp(false), "unanswered"],
  ["the deletion of a closed SCTP association", "deleted", sctp("shutdown_ack_sent"), "closed"],
  ["the deletion of an idle SCTP association", "deleted", sctp("established"), "expired"],
  [
    "the deletion of an SCTP association without any answer",
    "deleted",
    sctp("cookie_wait", false),
    "unanswered",
  ],
];

test.each(ROWS)("%s is told as the end that it is", (_, change, of, end) => {
  expect(connectionEnd(change, of)).toBe(end);
  // What ends a connection must be read, and the deletion of a closed one need not.
  if (end !== undefined) expect(mayMatter(change, of)).toBe(true);
  if (end === undefined && of.state !== "assured") expect(mayMatter(change, of)).toBe(change === "created");
});

describe("an observer", () => {
  test("tells the beginning and the end of a connection once, with the figures of the end", async () => {
    const { observer, finish, table, taken, told } = observing();
    const closed = flow({ state: "time_wait" });
    observer.see("created", flow({ state: "syn_sent", isAnswered: false }));
    table.flows = [
      flow({
        state: "time_wait",
        startedAt: NOW - 250,
        sent: { packets: 6, bytes: 412 },
        received: { packets: 5, bytes: 1204 },
      }),
    ];
    observer.see("changed", closed);
    await finish();
    observer.see("deleted", closed);
    expect(told()).toEqual(["began", "closed"]);
    expect(taken[1]).toMatchObject({
      durationMs: 250,
      flow: { sent: { packets: 6, bytes: 412 }, received: { packets: 5, bytes: 1204 } },
      endpoint: { source: { pod: "default/web-1" } },
      condition: "ready",
    });
  });

  test("takes the figures of a deleted flow from its deletion", () => {
    const { observer, table, taken } = observing();
    const sent = { packets: 1, bytes: 33 };
    observer.see(
      "deleted",
      flow({ protocol: "udp", state: "assured", sent, startedAt: NOW - 9000, stoppedAt: NOW - 10 }),
    );
    expect(taken).toMatchObject([{ event: "expired", durationMs: 8990, flow: { sent } }]);
    expect(table.readings).toEqual([]);
  });

  test("ends a closed connection once, though a reset follows, and the next one from the same port again", async () => {
    const { observer, finish, told } = observing();
    observer.see("changed", flow({ state: "time_wait", id: 7 }));
    observer.see("changed", flow({ state: "close", id: 7 }));
    observer.see("changed", flow({ state: "close", id: 8 }));
    await finish();
    expect(told()).toEqual(["closed", "reset"]);
  });

  test("does not take the figures of a later connection from the same port", async () => {
    const { observer, finish, table, taken } = observing();
    table.flows = [flow({ id: 2, sent: { packets: 1, bytes: 60 } })];
    observer.see("changed", flow({ id: 1, state: "time_wait" }));
    await finish();
    expect(taken).toMatchObject([
      { event: "closed", flow: { id: 1, sent: undefined }, durationMs: undefined },
    ]);
    expect(observer.withoutFigures).toBe(1);
  });

  test("does not ask for figures if the kernel has none", async () => {
    const { observer, table, told } = observing({ hasFigures: false });
    observer.see("changed", flow({ state: "time_wait" }));
    expect(told()).toEqual(["closed"]);
    expect([table.readings, observer.withoutFigures]).toEqual([[], 0]);
  });

  test("tells ends without figures if they cannot be read, with the reason", async () => {
    const { observer, finish, table, told, failures } = observing();
    table.error = new Error("EPERM");
    observer.see("changed", flow({ state: "close" }));
    await finish();
    expect([told(), observer.withoutFigures]).toEqual([["reset"], 1]);
    table.error = undefined;
    observer.see("changed", flow({ id: 2, state: "close" }));
    await finish();
    expect(failures).toEqual(["EPERM", "none"]);
  });

  test("lets a bounded number of ends wait for figures, and tells all others without", async () => {
    const { observer, finish, table, told } = observing();
    const ended = Array.from({ length: 3000 }, (_, id) =>
      flow({ id, state: "time_wait", client: { address: "10.244.1.9", port: id } }),
    );
    table.flows = ended;
    for (const one of ended) observer.see("changed", one);
    expect(told()).toHaveLength(1000);
    await finish();
    expect(told()).toHaveLength(3000);
    expect(observer.withoutFigures).toBe(1000);
    expect(table.readings).toEqual([2000]);
  });

  test("counts connections that are not translated or belong to no Service, and tells none of them", () => {
    const { observer, told } = observing();
    const direct = { address: "10.244.1.5", port: 8080 };
    const other = { address: "10.96.0.99", port: 80 };
    for (const destination of [direct, other])
      for (const change of ["created", "deleted"] as const) observer.see(change, flow({ destination }));
    expect([told(), observer.others]).toEqual([[], 2]);
  });
});
