import { describe, expect, test } from "vitest";
import { eventRecorder } from "../../../../src/daemon/events/event-recorder.ts";
import { type EventNote, eventObject, warning } from "../../../../src/daemon/events/events.ts";
import { conflictEvent } from "../../../../src/daemon/events/sync-events.ts";
import { servicePort } from "../../../support/build.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { memoryLogger } from "../../../support/memory-logger.ts";

type EventObject = ReturnType<typeof eventObject>;

const NOW = Date.UTC(2026, 10, 20, 12, 0, 0, 7);
const NODE = { kind: "Node", namespace: "", name: "node-1", uid: "u-1" } as const;
const WEB = { kind: "Service", namespace: "ns", name: "web", uid: "" } as const;
const ORIGIN = { instance: "node-1", id: "abc", at: NOW };

const LOST = {
  frontend: "10.96.0.10 . tcp . 80",
  loser: servicePort({ name: "ns/web" }),
  winner: servicePort({ name: "ns/old" }),
};

/** A failed sync. */
const failed = (problem: string, regarding: EventNote["regarding"] = NODE) =>
  warning(regarding, "SyncFailed", "Sync", problem);

describe("eventObject", () => {
  test("puts Events about a Node into the namespace default", () => {
    expect(eventObject(failed("nft hangs"), ORIGIN)).toEqual({
      apiVersion: "events.k8s.io/v1",
      kind: "Event",
      metadata: { name: "node-1.abc", namespace: "default" },
      eventTime: "2026-11-20T12:00:00.007000Z",
      reportingController: "nft-proxy",
      reportingInstance: "node-1",
      type: "Warning",
      reason: "SyncFailed",
      action: "Sync",
      note: "nft hangs",
      regarding: { apiVersion: "v1", kind: "Node", name: "node-1", uid: "u-1" },
    });
  });

  test("for a Node with a long name keeps the API server's limits of 253 characters for names and 128 for instances", () => {
    const name = `${"a".repeat(54)}.`.repeat(5).slice(0, 253);
    const object = eventObject(failed("nft hangs", { ...NODE, name }), {
      ...ORIGIN,
      instance: name,
      id: "f".repeat(32),
    });
    // The API server refuses two dots in a row, so a dot at the end of the shortened name is removed.
    expect(object.metadata.name).toBe(`${name.slice(0, 219)}.${"f".repeat(32)}`);
    expect(object.reportingInstance).toHaveLength(128);
    expect(object.regarding.name).toBe(name);
  });

  test("puts Events about a Service into the Service's namespace", () => {
    expect(eventObject(failed("refused", WEB), ORIGIN)).toMatchObject({
      metadata: { name: "web.abc", namespace: "ns" },
      regarding: { kind: "Service", namespace: "ns", name: "web" },
    });
  });

  test("cuts a note to 1024 bytes, between two characters", () => {
    const { note } = eventObject(failed("€".repeat(1000)), ORIGIN);
    expect(note).toBe(`${"€".repeat(340)}...`);
    expect(eventObject(failed("x".repeat(1024)), ORIGIN).note).toHaveLength(1024);
  });
});

describe("eventRecorder", () => {
  function makeRecorder(instance = "node-1") {
    const clock = new ManualClock(NOW);
    const sent: [string, string, object][] = [];
    const dropped: EventNote[] = [];
    const state: { refuses: boolean; gate: Promise<void> } = { refuses: false, gate: Promise.resolve() };
    let ids = 0;
    const recorder = eventRecorder({
      send: async (...request) => {
        await state.gate;
        if (state.refuses) throw new Error("connection refused");
        sent.push(request);
      },
      clock,
      logger: memoryLogger(),
      instance,
      makeId: () => `${instance}-${++ids}`,
      onDropped: (event) => dropped.push(event),
    });
    return { recorder, clock, sent, dropped, state };
  }

  const settle = () => new Promise((resolve) => setImmediate(resolve));
  const event = (number: number) => failed(`problem ${number}`);

  test("recognises repetitions by the part of an Event that is sent, so long notes take no more memory", async () => {
    const { recorder, sent } = makeRecorder();
    for (const end of ["a", "b"]) recorder.record(failed(`${"x".repeat(100_000)}${end}`));
    await settle();
    expect(sent).toHaveLength(1);
  });

  test("creates an Event, and counts repetitions in its series once a minute", async () => {
    const { recorder, clock, sent } = makeRecorder();
    recorder.record(event(1));
    for (const pause of [1000, 2000]) {
      clock.advance(pause);
      recorder.record(event(1));
    }
    await settle();
    const path = "/apis/events.k8s.io/v1/namespaces/default/events";
    expect(sent).toMatchObject([["POST", path, { note: "problem 1" }]]);
    clock.advance(59_000);
    clock.advance(1000);
    await settle();
    expect(sent.slice(1)).toEqual([
      [
        "PATCH",
        `${path}/node-1.node-1-1`,
        { series: { count: 3, lastObservedTime: "2026-11-20T12:00:03.007000Z" } },
      ],
    ]);
    expect(clock.timers).toBe(0);
  });

  test.each([
    [() => conflictEvent(WEB, [LOST]), 1],
    [(node: string) => ({ ...failed(`refused on ${node}`, WEB), clusterKey: "" }), 1],
    [(node: string) => failed(`refused on ${node}`, WEB), 2],
  ])(
    "%#: names Events that all nodes find alike once in the cluster, and others once for each node",
    async (noteOf, names) => {
      const nodes = ["node-1", "node-2"];
      const recorders = nodes.map(makeRecorder);
      for (const [index, { recorder, clock }] of recorders.entries()) {
        recorder.record(noteOf(nodes[index] ?? ""));
        clock.advance(15_000);
      }
      await settle();
      const made = recorders.flatMap(({ sent }) =>
        sent.map(([, , body]) => (body as EventObject).metadata.name),
      );
      expect([made.length, new Set(made).size]).toEqual([2, names]);
      for (const name of made) expect(name).toMatch(/^web\.[a-z0-9-]{1,40}$/);
    },
  );

  test("an address that a Service loses later to the same winner repeats the Event of the first one", async () => {
    const { recorder, clock, sent } = makeRecorder();
    for (const frontend of ["10.96.0.10 . tcp . 80", "192.0.2.9 . tcp . 80"])
      recorder.record(conflictEvent(WEB, [{ ...LOST, frontend }]));
    clock.advance(15_000);
    await settle();
    expect(sent.map(([method]) => method)).toEqual(["POST"]);
  });

  test("sends Events that all nodes find alike within 15 s, without counting repetitions, and again if the API server has dropped them", async () => {
    const { recorder, clock, sent } = makeRecorder();
    const found = conflictEvent(WEB, [LOST]);
    recorder.record(found);
    await settle();
    expect(sent, "at random within 15 s").toEqual([]);
    for (let minute = 0; minute < 59; minute += 1) {
      clock.advance(60_000);
      recorder.record(found);
    }
    await settle();
    expect(sent.map(([method]) => method)).toEqual(["POST"]);
    for (let minute = 0; minute < 2; minute += 1) {
      clock.advance(60_000);
      recorder.record(found);
    }
    await settle();
    expect(sent.map(([method]) => method)).toEqual(["POST", "POST"]);
  });

  test("counts repetitions by the time that has passed, however the wall clock is set", async () => {
    const { recorder, clock, sent } = makeRecorder();
    recorder.record(event(1));
    clock.set(NOW + 86_400_000);
    recorder.record(event(1));
    clock.set(NOW - 86_400_000);
    clock.advance(60_000);
    await settle();
    expect(sent.map(([method]) => method)).toEqual(["POST", "PATCH"]);
    expect(sent[1]?.[2], "as far from now as it is").toMatchObject({
      series: { lastObservedTime: "2026-11-19T12:00:00.007000Z" },
    });
    clock.advance(600_000);
    recorder.record(event(1));
    await settle();
    expect(sent.map(([method]) => method)).toEqual(["POST", "PATCH", "POST"]);
  });

  test("creates a new Event after ten quiet minutes", async () => {
    const { recorder, clock, sent } = makeRecorder();
    recorder.record(event(1));
    clock.advance(600_000);
    recorder.record(event(1));
    await settle();
    expect(sent.map(([method]) => method)).toEqual(["POST", "POST"]);
  });

  test("drops the Events of a flood beyond the first 25 and then one in 10 s", async () => {
    const { recorder, clock, sent, dropped } = makeRecorder();
    for (let number = 0; number < 30; number += 1) recorder.record(event(number));
    await settle();
    expect([sent.length, dropped.length]).toEqual([25, 5]);
    clock.set(NOW - 3_600_000);
    clock.advance(60_000);
    recorder.record(event(100));
    recorder.record(event(101));
    await settle();
    expect([sent.length, dropped.length]).toEqual([26, 6]);
  });

  test("drops the Events of a namespace beyond ten, without dropping those of other namespaces or of the node", async () => {
    const { recorder, clock, sent, dropped } = makeRecorder();
    const about = (namespace: string, number: number) => failed(`port ${number}`, { ...WEB, namespace });
    for (let number = 0; number < 300; number += 1) recorder.record(about("tenant", number));
    for (let number = 0; number < 10; number += 1) recorder.record(about("shop", number));
    for (let number = 0; number < 25; number += 1) recorder.record(event(number));
    await settle();
    expect([sent.length, dropped.length]).toEqual([45, 290]);
    expect(new Set(dropped.map(({ regarding }) => regarding.namespace))).toEqual(new Set(["tenant"]));
    clock.advance(60_000);
    recorder.record(about("tenant", 300));
    recorder.record(about("tenant", 301));
    expect(dropped).toHaveLength(291);
  });

  test("keeps a namespace's Events for a hanging API server, however many another namespace has", async () => {
    const { recorder, clock, sent, dropped, state } = makeRecorder();
    let open = () => {};
    state.gate = new Promise((resolve) => {
      open = resolve;
    });
    const about = (namespace: string, number: number) => failed(`port ${number}`, { ...WEB, namespace });
    for (let number = 0; number < 100; number += 1) {
      recorder.record(about("tenant", number));
      clock.advance(60_000);
    }
    const before = dropped.length;
    recorder.record(about("shop", 1));
    recorder.record(event(1));
    expect([before, dropped.length]).toEqual([50, 50]);
    open();
    await expect.poll(() => sent.length).toBe(52);
  });

  test("drops an Event that the API server refuses, and creates it again when it recurs", async () => {
    const { recorder, sent, dropped, state } = makeRecorder();
    state.refuses = true;
    recorder.record(event(1));
    await settle();
    expect(dropped).toEqual([event(1)]);
    state.refuses = false;
    recorder.record(event(1));
    await settle();
    expect(sent.map(([method]) => method)).toEqual(["POST"]);
  });

  test("keeps at most 50 Events for a hanging API server, and sends them later", async () => {
    const { recorder, clock, sent, dropped, state } = makeRecorder();
    let open = () => {};
    state.gate = new Promise((resolve) => {
      open = resolve;
    });
    for (let number = 0; number < 100; number += 1) {
      recorder.record(event(number));
      clock.advance(60_000);
    }
    expect(dropped).toHaveLength(50);
    open();
    await expect.poll(() => sent.length).toBe(50);
  });

  test("stop() waits at most 2 s for a hanging API server, and sends nothing more", async () => {
    const { recorder, clock, sent, dropped, state } = makeRecorder();
    let open = () => {};
    state.gate = new Promise((resolve) => {
      open = resolve;
    });
    for (const number of [1, 2, 3]) recorder.record(event(number));
    await settle();
    let isStopped = false;
    const stopping = recorder.stop().then(() => {
      isStopped = true;
    });
    clock.advance(1999);
    await settle();
    expect(isStopped).toBe(false);
    clock.advance(1);
    await stopping;
    open();
    await expect.poll(() => dropped).toEqual([event(2), event(3)]);
    expect([sent.length, clock.timers]).toEqual([1, 0]);
  });

  test("stop() waits for open requests, and sends nothing more", async () => {
    const { recorder, clock, sent } = makeRecorder();
    recorder.record(event(1));
    recorder.record(event(1));
    await recorder.stop();
    recorder.record(event(2));
    expect([sent.length, clock.timers]).toEqual([1, 0]);
  });
});
