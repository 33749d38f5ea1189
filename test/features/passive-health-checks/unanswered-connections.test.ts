import { describe, expect, test } from "vitest";
import { releaseUnanswered } from "../../../src/features/passive-health-checks/unanswered-connections.ts";
import type { Flow } from "../../../src/kernel/conntrack.ts";
import { FakeFlowTable, flow } from "../../support/fake-flow-table.ts";

const EJECTED = [{ target: "10.244.1.2 . 8080" }, { target: "fd00::2 . 8080" }];

let ids = 0;
const waitingFor = (address: string, port: number): Flow =>
  flow({
    id: ++ids,
    state: "syn_sent",
    client: { address: address.includes(":") ? "fd00::9" : "10.244.1.9", port: 40_000 + ids },
    destination: { address: address.includes(":") ? "fd00:10::1" : "10.96.0.10", port: 80 },
    replySource: { address, port },
  });

describe("releaseUnanswered", () => {
  const kept = [
    waitingFor("10.244.1.3", 8080),
    waitingFor("10.244.1.2", 8081),
    waitingFor("fd00::3", 8080),
    { ...waitingFor("10.244.1.2", 8080), state: "established" },
  ];
  const released = [
    waitingFor("10.244.1.2", 8080),
    waitingFor("10.244.1.2", 8080),
    waitingFor("fd00::2", 8080),
  ];

  test("deletes the connections that wait for these endpoints, and no others", async () => {
    const table = new FakeFlowTable();
    table.flows = [...kept, ...released];
    expect(await releaseUnanswered(table, EJECTED)).toBe(released.length);
    expect(table.flows).toEqual(kept);
  });

  test("asks the kernel for nothing else if no connection waits for them", async () => {
    const table = new FakeFlowTable();
    table.flows = kept;
    expect(await releaseUnanswered(table, EJECTED)).toBe(0);
    expect(table.deletions).toEqual([]);
  });
});
