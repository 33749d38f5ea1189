import { setImmediate } from "node:timers/promises";
import { describe, expect, test, vi } from "vitest";
import { type CleaningReport, StaleFlowCleaner } from "../../../src/conntrack/stale-flow-cleaner.ts";
import { nodePortHosts } from "../../../src/conntrack/udp-frontends.ts";
import { EVERYWHERE, type Flow, type FlowEnd } from "../../../src/kernel/conntrack.ts";
import { SliceEndpoints } from "../../../src/model/endpoint-slice.ts";
import { servicePortsOf } from "../../../src/model/service-port.ts";
import {
  DRAINING,
  endpoint,
  GONE,
  type Objects,
  port,
  STARTING,
  service,
  slice,
  slicePort,
} from "../../support/build.ts";
import { FakeFlowTable, flow as flowOf } from "../../support/fake-flow-table.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { memoryLogger } from "../../support/memory-logger.ts";
import { countOperations } from "../../support/operations.ts";
import { dns, UdpNode } from "../../support/udp-node.ts";

const NODE = "192.0.2.2";
const [FORMER, UNSELECTED] = ["192.0.2.3", "192.0.2.4"] as const;
const HOSTS = {
  serving: new Set([NODE]),
  former: new Set([NODE, FORMER]),
  withoutIntervals: new Set([NODE]),
};
const NOT_REMOVED: ReadonlySet<string> = new Set();

function end(text: string): FlowEnd {
  const [address = "", port = ""] = text.split(" . ");
  return { address, port: Number(port) };
}

const flow = (destination: string, replySource: string): Flow =>
  flowOf({ protocol: "udp", destination: end(destination), replySource: end(replySource) });

const udp = { protocol: "udp" } as const;
const RTP = service({
  name: "rtp",
  clusterIPs: ["10.96.0.12"],
  externalIPs: ["203.0.113.1", NODE],
  ports: [port(5004, { ...udp, ranges: [{ first: 8000, last: 8999 }] })],
});
const NO_OBJECTS: Objects = {};
const TO_DNS = flow("10.96.0.10 . 53", "10.244.1.5 . 5300");
const WANTED: Objects = {
  services: [
    service({ name: "dns", clusterIPs: ["10.96.0.10"], ports: [port(53, { ...udp, nodePort: 30_053 })] }),
    service({ name: "idle", clusterIPs: ["10.96.0.11"], ports: [port(53, udp)] }),
    RTP,
  ],
  slices: [
    slice({ service: "dns", ports: [slicePort(5300, udp)], endpoints: ["10.244.1.5", "10.244.2.5"] }),
    slice({ service: "rtp", ports: [slicePort(5004, udp)], endpoints: ["10.244.1.5"] }),
  ],
};

test("the work to judge untranslated flows to a range grows with their number, not with that of endpoints", () => {
  const operations = (flows: number): number => {
    const crowd = new UdpNode();
    const endpoints = Array.from({ length: 500 }, (_, i) => `10.244.${i >> 8}.${i & 255}`);
    const slices = [slice({ service: "rtp", ports: [slicePort(5004, udp)], endpoints })];
    crowd.sync({ services: [RTP], slices });
    const judge = crowd.frontends.judge(HOSTS, NOT_REMOVED);
    return countOperations(() => {
      for (let i = 0; i < flows; i++) {
        const destination = `203.0.113.1 . ${8000 + i}`;
        expect(judge(flow(destination, destination))).toBe(true);
      }
    });
  };
  expect(operations(201) - operations(1)).toBeLessThan(200 * 500);
});

describe("a flow", () => {
  const node = new UdpNode();
  node.sync(WANTED);
  const isStale = node.frontends.judge(HOSTS, NOT_REMOVED);

  test.each([
    ["to an endpoint", "10.96.0.10 . 53", "10.244.1.5 . 5300"],
    ["that is translated, to no frontend", "10.96.0.99 . 53", "10.244.9.9 . 53"],
    ["to another port of a frontend's address", "10.96.0.10 . 54", "10.96.0.10 . 54"],
    ["that is not translated, to a frontend without endpoints", "10.96.0.11 . 53", "10.96.0.11 . 53"],
    ["to an endpoint of a NodePort", `${NODE} . 30053`, "10.244.1.5 . 5300"],
    ["to the port of a NodePort at another host", "198.51.100.7 . 30053", "198.51.100.7 . 30053"],
    [
      "to a server of this host, at an address without NodePorts",
      `${UNSELECTED} . 30053`,
      `${UNSELECTED} . 30053`,
    ],
    ["that others translate, at an address without NodePorts", `${UNSELECTED} . 30053`, "10.244.9.9 . 5300"],
    [
      "to a server of this host, at an address that has no NodePorts any more",
      `${FORMER} . 30053`,
      `${FORMER} . 30053`,
    ],
    ["of a port range, to an endpoint", "203.0.113.1 . 8472", "10.244.1.5 . 8472"],
    [
      "to a server of this host, at an address where ranges are not served",
      `${NODE} . 8472`,
      `${NODE} . 8472`,
    ],
    [
      "at an address that has no NodePorts any more, to a port of no NodePort",
      `${FORMER} . 53`,
      "10.244.1.5 . 5300",
    ],
  ])("%s is kept", (_, destination, replySource) => {
    expect(isStale(flow(destination, replySource))).toBe(false);
  });

  test.each([
    ["to an endpoint that is gone", "10.96.0.10 . 53", "10.244.9.9 . 5300"],
    ["to another port of an endpoint", "10.96.0.10 . 53", "10.244.1.5 . 53"],
    ["that began before there were endpoints", "10.96.0.10 . 53", "10.96.0.10 . 53"],
    ["of a frontend without endpoints", "10.96.0.11 . 53", "10.244.1.5 . 5300"],
    [
      "of a frontend without endpoints, to one with the frontend's port",
      "10.96.0.11 . 53",
      "10.244.1.5 . 53",
    ],
    ["of a NodePort, to an endpoint that is gone", `${NODE} . 30053`, "10.244.9.9 . 5300"],
    ["of a port range that began before the rules", "203.0.113.1 . 8472", "203.0.113.1 . 8472"],
    [
      "of a port range, at an address where ranges are not served any more",
      `${NODE} . 8472`,
      "10.244.1.5 . 8472",
    ],
    ["of a NodePort that began before the rules", `${NODE} . 30053`, `${NODE} . 30053`],
    ["of a NodePort, at an address that has none any more", `${FORMER} . 30053`, "10.244.1.5 . 5300"],
  ])("%s is deleted", (_, destination, replySource) => {
    expect(isStale(flow(destination, replySource))).toBe(true);
  });
});

/** Returns which of some flows are stale, given by `destination>reply source`. */
function staleOf(node: UdpNode, ...flows: readonly string[]): string[] {
  const isStale = node.frontends.judge(HOSTS, node.frontends.takeRemoved());
  return flows.filter((text) => {
    const [destination = "", replySource = ""] = text.split(">");
    return isStale(flow(destination, replySource));
  });
}

const both = (...all: readonly Objects[]): Objects => ({
  services: all.flatMap(({ services = [] }) => services),
  slices: all.flatMap(({ slices = [] }) => slices),
});

describe("flows are judged", () => {
  const DNS = dns("10.96.0.10", "10.244.1.5");

  test("by all endpoints that are ready or serving, and have not terminated for too long", () => {
    const node = new UdpNode();
    const endpoints = [
      endpoint("10.244.1.5"),
      endpoint("10.244.1.6", DRAINING),
      endpoint("10.244.1.7", GONE),
      endpoint("10.244.1.8", { ...STARTING, ready: true }),
      endpoint("10.244.1.9", DRAINING),
    ];
    node.drained.add("10.244.1.9 . 5300");
    node.sync({
      ...DNS,
      slices: [slice({ service: "dns-10-96-0-10", ports: [slicePort(5300, udp)], endpoints })],
    });
    const flows = endpoints.map(({ address }) => `10.96.0.10 . 53>${address} . 5300`);
    expect(staleOf(node, ...flows)).toEqual([flows[2], flows[4]]);
  });

  test("by the endpoints of all of a Service's slices", () => {
    const node = new UdpNode();
    const [first] = DNS.slices ?? [];
    node.sync({
      ...DNS,
      slices:
        first === undefined
          ? []
          : [first, { ...first, name: "second", endpoints: new SliceEndpoints([endpoint("10.244.1.6")]) }],
    });
    const flows = ["5", "6", "7"].map((last) => `10.96.0.10 . 53>10.244.1.${last} . 5300`);
    expect(staleOf(node, ...flows)).toEqual([flows[2]]);
  });

  test("in a conflict by the endpoints of the owner, which is the Service whose cluster IP it is", () => {
    const node = new UdpNode();
    const thief = dns("10.96.0.9", "10.244.1.9");
    const services = (thief.services ?? []).map((one) => ({
      ...one,
      createdAt: 0,
      externalIPs: { ip: ["10.96.0.10"], ip6: [] },
    }));
    node.sync(both({ ...thief, services }, DNS));
    const flows = ["10.96.0.10 . 53>10.244.1.9 . 5300", "10.96.0.10 . 53>10.244.1.5 . 5300"];
    expect(staleOf(node, ...flows)).toEqual([flows[0]]);
  });

  test("not while their service port is in quarantine, until the Service is gone", () => {
    const node = new UdpNode();
    const flows = ["10.96.0.10 . 53>10.244.9.9 . 5300", "10.96.0.10 . 53>10.244.1.5 . 5300"];
    node.sync(DNS);
    for (const one of DNS.services ?? [])
      for (const { key } of servicePortsOf(one)) node.quarantined.add(key);
    node.sync(DNS);
    expect(staleOf(node, ...flows)).toEqual([]);
    node.sync({});
    expect(staleOf(node, ...flows)).toEqual(flows);
  });

  test("as those of removed frontends, once: a port, a port range, a NodePort, a Service", () => {
    const node = new UdpNode();
    node.sync(WANTED);
    const flows = [
      "203.0.113.1 . 8472>10.244.1.5 . 8472",
      "10.96.0.12 . 5004>10.244.1.5 . 5004",
      `${NODE} . 30053>10.244.1.5 . 5300`,
      "10.96.0.10 . 53>10.244.1.5 . 5300",
    ];
    const elsewhere = `${UNSELECTED} . 30053>10.244.1.5 . 5300`;
    const untranslated = "10.96.0.10 . 53>10.96.0.10 . 53";
    const services = WANTED.services?.map((one) => ({
      ...one,
      features: {},
      ports: one.ports.map((spec) => ({ ...spec, nodePort: 0 })),
    }));
    node.sync({ ...WANTED, services: services ?? [] });
    const removed = node.frontends.takeRemoved();
    node.frontends.putBack(removed);
    expect(staleOf(node, ...flows, elsewhere)).toEqual([flows[0], flows[2]]);
    expect(staleOf(node, ...flows)).toEqual([]);
    node.sync({});
    expect(staleOf(node, ...flows, untranslated)).toEqual([flows[1], flows[3]]);
    expect(node.frontends.isEmpty).toBe(true);
  });

  test("as those of another Service that has taken over the frontend", () => {
    const node = new UdpNode();
    node.sync(DNS);
    const { services = [], slices = [] } = dns("10.96.0.10", "10.244.1.6");
    node.sync({
      services: services.map((one) => ({ ...one, name: "default/other" as typeof one.name })),
      slices: slices.map((one) => ({ ...one, service: "default/other" as typeof one.service })),
    });
    const flows = ["10.96.0.10 . 53>10.244.1.5 . 5300", "10.96.0.10 . 53>10.244.1.6 . 5300"];
    expect(staleOf(node, ...flows)).toEqual([flows[0]]);
  });
});

test("at most 100,000 removed frontends are stored, and the oldest are deleted first", () => {
  const node = new UdpNode();
  const ports = Array.from({ length: 1000 }, (_, index) => port(index + 1, udp));
  const services = Array.from({ length: 101 }, (_, index) =>
    service({ name: `s${index}`, clusterIPs: [`10.96.1.${index + 1}`], ports }),
  );
  for (const one of services) node.sync({ services: [one] });
  node.sync({});
  const removed = node.frontends.takeRemoved();
  expect([removed.size, removed.has("10.96.1.1 . udp . 1"), removed.has("10.96.1.101 . udp . 1")]).toEqual([
    100_000,
    false,
    true,
  ]);
});

describe("the places whose flows may be stale", () => {
  const PLACES = [
    { family: "ip", address: "10.96.0.10" },
    { family: "ip", port: 30_053 },
    { family: "ip", address: "203.0.113.1" },
    { family: "ip6", port: 53 },
    { family: "ip6", port: 30_054 },
  ];
  const dual = service({
    name: "dns",
    clusterIPs: ["10.96.0.10", "fd00:10::10"],
    externalIPs: ["203.0.113.1"],
    ports: [port(53, { ...udp, nodePort: 30_053 }), port(53, { protocol: "tcp" })],
  });

  test("are those of the UDP frontends that a changed Service has or had", () => {
    const { cache, frontends } = new UdpNode();
    cache.putService(dual);
    cache.putService(service());
    const [dns, web] = cache.serviceNames();
    if (dns === undefined || web === undefined) throw new Error("no Services");
    expect(frontends.update([web])).toEqual([]);
    const places = frontends.update([web, dns]);
    expect(new Set(places)).toEqual(new Set([...PLACES.slice(0, 4), { family: "ip6", port: 30_053 }]));
    cache.putService({ ...dual, ports: [port(54, { ...udp, nodePort: 30_054 })] });
    expect(frontends.update([dns]), "before and after").toEqual(
      expect.arrayContaining([...PLACES, { family: "ip6", port: 54 }]),
    );
    cache.deleteService(dns);
    expect(frontends.update([dns])).toContainEqual({ family: "ip6", port: 54 });
    expect(frontends.update([dns])).toEqual([]);
  });

  test("are all IPv6 flows for an interval of ports", () => {
    const node = new UdpNode();
    const rtp = { ...RTP, clusterIPs: { ip: "", ip6: "fd00:10::12" }, externalIPs: { ip: [], ip6: [] } };
    expect(node.sync({ services: [rtp] })).toContainEqual({ family: "ip6" });
  });
});

describe("StaleFlowCleaner", () => {
  function makeCleaner(table = new FakeFlowTable()) {
    const logger = memoryLogger();
    const reports: CleaningReport[] = [];
    const node = new UdpNode();
    const view = { hosts: new Set([NODE]) };
    const clock = new ManualClock();
    const cleaner = new StaleFlowCleaner({
      table,
      frontends: node.frontends,
      nodePortHosts: () => view.hosts,
      localAddresses: () => [],
      clock,
      logger,
      onCleaned: (report) => reports.push(report),
    });
    const clean = (wanted: Objects) => cleaner.clean(node.sync(wanted));
    return { clean, cleaner, clock, table, node, view, logger, reports };
  }

  test("lists no flows when there was never a UDP frontend", async () => {
    const { clean, table } = makeCleaner();
    await clean(NO_OBJECTS);
    expect(table.listings).toBe(0);
  });

  test("deletes the flows of a removed frontend, once", async () => {
    const { clean, table, reports } = makeCleaner();
    table.flows = [TO_DNS];
    await clean(WANTED);
    expect(table.deleted).toEqual([]);
    await clean(NO_OBJECTS);
    await clean(NO_OBJECTS);
    expect(table.deleted).toEqual([TO_DNS]);
    expect(reports.map(({ deleted }) => deleted.ip)).toEqual([0, 1]);
    expect(table.listings, "with one that looks whether it is gone").toBe(3);
  });

  test("keeps a flow that the client started again after the deletion", async () => {
    const table = new (class extends FakeFlowTable {
      override async expireFlows(): Promise<void> {
        this.flows = [{ ...TO_DNS, id: 2 }];
      }
    })();
    const { clean, reports } = makeCleaner(table);
    await clean(WANTED);
    table.flows = [TO_DNS];
    await clean(NO_OBJECTS);
    expect(reports.map(({ deleted }) => deleted.ip)).toEqual([0, 1]);
  });

  test("repeats a deletion without effect, with growing pauses, until the flows are gone", async () => {
    const table = new FakeFlowTable();
    const working = table.expireFlows.bind(table);
    table.expireFlows = async () => {};
    const { clean, clock, reports, logger } = makeCleaner(table);
    await clean(WANTED);
    table.flows = [TO_DNS];
    await clean(NO_OBJECTS);
    const error = "the kernel reports success, but the flows are still there";
    expect(logger.lines.at(-1)).toMatchObject({ level: "warn", fields: { error } });
    const listings = () => table.listings;
    for (const pause of [1000, 2000, 4000]) {
      const before = table.listings;
      clock.advance(pause - 1);
      expect(table.listings).toBe(before);
      clock.advance(1);
      await vi.waitUntil(() => listings() === before + 2 && clock.timers === 1);
    }
    table.expireFlows = working;
    clock.advance(8000);
    await vi.waitUntil(() => reports.length === 2);
    expect([table.flows, clock.timers]).toEqual([[], 0]);
  });

  test("repeats a cleaning that failed at the next one, with the places of both", async () => {
    const { clean, cleaner, table } = makeCleaner();
    await clean(WANTED);
    table.flows = [TO_DNS];
    table.error = new Error("conntrack failed");
    await clean(NO_OBJECTS);
    table.error = undefined;
    await cleaner.clean([{ family: "ip", address: "10.96.0.99" }]);
    expect(table.flows).toEqual([]);
  });

  test("reads all flows instead of many places one by one", async () => {
    const { clean, cleaner, table } = makeCleaner();
    await clean(WANTED);
    const places = Array.from({ length: 100 }, (_, port) => ({ family: "ip6", port }) as const);
    await cleaner.clean(places);
    expect(table.places).toEqual(EVERYWHERE);
  });

  test("repeats a cleaning after a conntrack that failed, without any change of a Service", async () => {
    const { clean, clock, table, reports } = makeCleaner();
    await clean(WANTED);
    table.flows = [TO_DNS];
    table.error = new Error("conntrack failed");
    await clean(NO_OBJECTS);
    table.error = undefined;
    clock.advance(1000);
    await vi.waitUntil(() => reports.length === 2);
    expect([table.flows, clock.timers]).toEqual([[], 0]);
  });

  test("deletes many flows a few thousand at a time while they are listed", async () => {
    const { clean, table, reports } = makeCleaner();
    table.flows = Array.from({ length: 12_000 }, (_, id) => ({ ...TO_DNS, id }));
    await clean(WANTED);
    await clean(NO_OBJECTS);
    expect(table.deletions).toEqual([5000, 5000, 2000]);
    expect(reports.at(-1)?.deleted).toEqual({ ip: 12_000, ip6: 0 });
  });

  test("does only the last of several requests during a cleaning, with the frontends of all of them", async () => {
    const { clean, table } = makeCleaner();
    table.flows = [TO_DNS];
    const other = dns("10.96.0.13", "10.244.1.5");
    await Promise.all([clean(other), clean(WANTED), clean(other)]);
    expect(table.listings, "with one that looks whether it is gone").toBe(3);
    expect(table.deleted).toEqual([TO_DNS]);
  });

  test.each([
    ["at most a fifth of the time, however often a Service changes", 100, 400],
    ["half a second's pause, however long a cleaning takes", 3000, 500],
  ])("takes %s", async (_, listing, pause) => {
    const { clean, clock, table } = makeCleaner();
    table.whileListed = () => clock.advance(listing);
    await clean(WANTED);
    expect(table.listings).toBe(1);
    const cleaned = clean(WANTED);
    await setImmediate();
    expect(table.listings).toBe(1);
    clock.advance(pause - 1);
    await setImmediate();
    expect(table.listings).toBe(1);
    clock.advance(1);
    await cleaned;
    expect(table.listings).toBe(2);
    clock.advance(pause);
    await clean(WANTED);
    expect(table.listings).toBe(3);
  });

  test("deletes the flows of a NodePort at an address that no longer serves NodePorts, once", async () => {
    const { clean, table, view } = makeCleaner();
    const translated = flow(`${NODE} . 30053`, "10.244.1.5 . 5300");
    table.flows = [translated];
    await clean(WANTED);
    expect(table.deleted).toEqual([]);
    view.hosts = new Set();
    await clean(dns("10.96.0.99"));
    table.error = new Error("conntrack failed");
    await clean(WANTED);
    table.error = undefined;
    await clean(WANTED);
    await clean(WANTED);
    expect(table.deleted).toEqual([translated]);
  });

  test("keeps flows to an endpoint that is added while the table is listed", async () => {
    const { clean, clock, table, node, reports } = makeCleaner();
    clock.advance(1000);
    const stale = flow("10.96.0.10 . 53", "10.244.9.9 . 5300");
    table.flows = [stale, flow("10.96.0.10 . 53", "10.244.3.5 . 5300")];
    table.whileListed = () => {
      clock.advance(4000);
      node.sync(dns("10.96.0.10", "10.244.1.5", "10.244.3.5"));
    };
    await clean(dns("10.96.0.10", "10.244.1.5"));
    expect(table.deleted).toEqual([stale]);
    // Two listings.
    expect(reports).toEqual([{ deleted: { ip: 1, ip6: 0 }, duration: 8000 }]);
  });

  test("warns once for each reason, and deletes the flows when conntrack works again", async () => {
    const { clean, table, logger, reports } = makeCleaner();
    const lines = () => logger.lines.filter(({ level }) => level !== "debug");
    table.flows = [TO_DNS];
    table.error = new Error("conntrack failed: ENOENT");
    await clean(WANTED);
    await clean(NO_OBJECTS);
    expect(lines()).toMatchObject([{ level: "warn", fields: { error: "conntrack failed: ENOENT" } }]);
    table.error = undefined;
    await clean(dns("10.96.0.99"));
    expect(table.deleted, "also of a frontend that came and went while it failed").toEqual([TO_DNS]);
    expect(reports.map(({ deleted }) => deleted.ip)).toEqual([1]);
    table.error = new Error("conntrack failed: ENOENT");
    await clean(WANTED);
    expect(
      lines().map(({ level }) => level),
      "it had worked",
    ).toEqual(["warn", "info", "warn"]);
  });
});

const OF_HOST = { ip: ["127.0.0.1", "192.0.2.2", "192.0.2.3"], ip6: ["::1", "fd00::2"] };

test.each([
  [
    "the selected ones where some are selected",
    [{ family: "ip", nodePorts: { kind: "addresses", addresses: ["192.0.2.2"] } }],
    ["192.0.2.2"],
  ],
  [
    "all but loopback where all are selected",
    [
      { family: "ip", nodePorts: { kind: "all" } },
      { family: "ip6", nodePorts: { kind: "addresses", addresses: [] } },
    ],
    ["192.0.2.2", "192.0.2.3"],
  ],
  ["none of a family that is not programmed", [{ family: "ip6", nodePorts: { kind: "all" } }], ["fd00::2"]],
] as const)("the addresses that serve NodePorts are %s", (_, selected, expected) => {
  expect([...nodePortHosts(selected, OF_HOST)]).toEqual(expected);
});
