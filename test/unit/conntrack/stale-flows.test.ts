import { describe, expect, test, vi } from "vitest";
import { type CleaningReport, StaleFlowCleaner } from "../../../src/conntrack/stale-flow-cleaner.ts";
import {
  hostsWithoutRanges,
  isStale,
  nodePortHosts,
  type UdpFrontends,
  UdpServicePorts,
  udpFrontends,
  withRemoved,
} from "../../../src/conntrack/stale-flows.ts";
import type { Flow } from "../../../src/kernel/conntrack.ts";
import type { FlowEnd } from "../../../src/kernel/tracked-connections.ts";
import type { Endpoint } from "../../../src/model/endpoint.ts";
import {
  type Protocol,
  type ServicePortKey,
  type ServicePortName,
  serviceName,
} from "../../../src/model/ids.ts";
import type { ServicePort } from "../../../src/model/service-port.ts";
import { cacheOf, named, port, service, slice } from "../../support/build.ts";
import { FakeFlowTable, OldFlowTable } from "../../support/fake-flow-table.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { memoryLogger } from "../../support/memory-logger.ts";

const NODE = "192.0.2.2";
const [FORMER, UNSELECTED] = ["192.0.2.3", "192.0.2.4"] as const;
const HOSTS = { serving: new Set([NODE]), former: new Set([NODE, FORMER]), withoutRanges: new Set([NODE]) };

function end(text: string): FlowEnd {
  const [address = "", port = ""] = text.split(" . ");
  return { address, port: Number(port) };
}

const flow = (destination: string, replySource: string, id = 1): Flow => ({
  protocol: "udp",
  id,
  client: { address: "10.244.1.9", port: 20002 },
  destination: end(destination),
  replySource: end(replySource),
  zone: undefined,
});
const frontends = (rows: Readonly<Record<string, readonly string[]>>): UdpFrontends =>
  new Map(Object.entries(rows).map(([key, targets]) => [key, new Set(targets)]));

const WANTED = frontends({
  "10.96.0.10 . 53": ["10.244.1.5 . 5300", "10.244.2.5 . 5300"],
  "10.96.0.11 . 53": [],
  "ip nodePort 30053": ["10.244.1.5 . 5300"],
  "203.0.113.1 . 8000-8999": ["10.244.1.5"],
  [`${NODE} . 8000-8999`]: ["10.244.1.5"],
});

describe("isStale", () => {
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
    ["of a range of ports, to an endpoint", "203.0.113.1 . 8472", "10.244.1.5 . 8472"],
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
  ])("keeps a flow %s", (_, destination, replySource) => {
    expect(isStale(flow(destination, replySource), WANTED, HOSTS)).toBe(false);
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
    ["of a NodePort, to an endpoint that is gone", `${NODE} . 30053`, "10.244.2.5 . 5300"],
    ["of a range of ports that began before the rules", "203.0.113.1 . 8472", "203.0.113.1 . 8472"],
    [
      "of a range of ports, at an address where ranges are not served any more",
      `${NODE} . 8472`,
      "10.244.1.5 . 8472",
    ],
    ["of a NodePort that began before the rules", `${NODE} . 30053`, `${NODE} . 30053`],
    ["of a NodePort, at an address that has none any more", `${FORMER} . 30053`, "10.244.1.5 . 5300"],
  ])("deletes a flow %s", (_, destination, replySource) => {
    expect(isStale(flow(destination, replySource), WANTED, HOSTS)).toBe(true);
  });
});

describe("udpFrontends", () => {
  test("a cluster IP belongs to its Service, even if an earlier Service names it as an external IP", () => {
    const thief = { port: servicePort("udp", "10.96.0.9"), endpoints: [endpoint("10.244.1.9", true, true)] };
    const own = { port: servicePort("udp", "203.0.113.1"), endpoints: [endpoint("10.244.1.5", true, true)] };
    expect(udpFrontends([thief, own], "virtual").get("203.0.113.1 . 53")).toEqual(
      new Set(["10.244.1.5 . 5300"]),
    );
  });

  function servicePort(protocol: Protocol, clusterIP = "10.96.0.10"): ServicePort {
    return {
      key: "" as ServicePortKey,
      name: "" as ServicePortName,
      family: "ip",
      service: {
        name: serviceName("ns", "dns"),
        uid: "",
        createdAt: 0,
        clusterIPs: { ip: clusterIP, ip6: "" },
        ports: [],
        externalIPs: { ip: ["203.0.113.1"], ip6: ["fd00::1"] },
        loadBalancerIPs: { ip: ["203.0.113.2"], ip6: [] },
        loadBalancerSourceRanges: { ip: [], ip6: [] },
        affinitySeconds: 0,
        internalPolicyLocal: false,
        externalPolicyLocal: false,
        healthCheckNodePort: 0,
        deleting: false,
      },
      spec: { name: "dns", protocol, port: 53, nodePort: 30053 },
    };
  }

  function endpoint(address: string, ready: boolean, serving: boolean): Endpoint {
    const source = {
      address,
      nodeName: "",
      zone: "",
      ready,
      serving,
      terminating: !ready,
      zoneHints: [],
      nodeHints: [],
      pod: "",
    };
    return { target: `${address} . 5300`, address, port: 5300, local: false, weight: 1, source };
  }

  test("are all addresses and the NodePort of UDP ports, with the endpoints that are ready or serving", () => {
    const endpoints = [
      endpoint("10.244.1.5", true, true),
      endpoint("10.244.1.6", false, true),
      endpoint("10.244.1.7", false, false),
      endpoint("10.244.1.8", true, false),
    ];
    const targets = new Set(["10.244.1.5 . 5300", "10.244.1.6 . 5300", "10.244.1.8 . 5300"]);
    const ports = [
      { port: servicePort("udp"), endpoints },
      { port: servicePort("tcp", "10.96.0.11"), endpoints },
    ];
    expect([...udpFrontends(ports, "virtual")]).toEqual([
      ["10.96.0.10 . 53", targets],
      ["203.0.113.1 . 53", targets],
      ["203.0.113.2 . 53", targets],
      ["ip nodePort 30053", targets],
    ]);
  });

  test("give a frontend in conflict to the first service port", () => {
    const first = { port: servicePort("udp"), endpoints: [endpoint("10.244.1.5", true, true)] };
    const second = { port: servicePort("udp", "10.96.0.11"), endpoints: [] };
    expect(udpFrontends([first, second], "virtual").get("203.0.113.1 . 53")?.size).toBe(1);
    expect(udpFrontends([first, second], "virtual").get("10.96.0.11 . 53")?.size).toBe(0);
  });

  test("have no endpoints to judge a quarantined service port by, unless another one has the frontend", () => {
    const first = { port: servicePort("udp"), endpoints: [endpoint("10.244.1.5", true, true)] };
    const quarantined = { port: servicePort("udp", "10.96.0.11"), endpoints: undefined };
    const wanted = withRemoved(udpFrontends([first, quarantined], "virtual"), [
      "10.96.0.11 . 53",
      "203.0.113.1 . 53",
    ]);
    const isFlowStale = (to: string) => isStale(flow(to, "10.244.9.9 . 5300"), wanted, HOSTS);
    expect(["10.96.0.11 . 53", "203.0.113.1 . 53"].map(isFlowStale)).toEqual([false, true]);
  });
});

describe("StaleFlowCleaner", () => {
  function makeCleaner(table = new FakeFlowTable()) {
    const logger = memoryLogger();
    const reports: CleaningReport[] = [];
    const view = { frontends: frontends({}), hosts: new Set([NODE]) };
    const clock = new ManualClock();
    const cleaner = new StaleFlowCleaner({
      table,
      frontends: () => view.frontends,
      nodePortHosts: async () => view.hosts,
      hostsWithoutRanges: async () => new Set<string>(),
      clock,
      logger,
      onCleaned: (report) => reports.push(report),
    });
    const clean = (wanted: UdpFrontends) => {
      view.frontends = wanted;
      return cleaner.clean();
    };
    return { clean, clock, table, view, logger, reports };
  }

  const NONE = frontends({});
  const TO_DNS = flow("10.96.0.10 . 53", "10.244.1.5 . 5300");

  test("lists no flows when there was never a UDP frontend", async () => {
    const { clean, table } = makeCleaner();
    await clean(NONE);
    expect(table.listings).toBe(0);
  });

  test("deletes the flows of a frontend that is gone, once", async () => {
    const { clean, table, reports } = makeCleaner();
    table.flows = [TO_DNS];
    await clean(WANTED);
    expect(table.deleted).toEqual([]);
    await clean(NONE);
    await clean(NONE);
    expect(table.deleted).toEqual([TO_DNS]);
    expect(reports.map(({ deleted }) => deleted.ip)).toEqual([0, 1]);
    expect(table.listings, "with one that looks whether it is gone").toBe(3);
  });

  const KINDS = [TO_DNS, { ...TO_DNS, id: 2 }, flow("10.96.0.10 . 53", "10.244.2.5 . 5300", 3)];

  test.each([
    ["does nothing when it is to end them at once", new OldFlowTable()],
    [
      "does not know how to end them at once",
      new (class extends OldFlowTable {
        override async expireFlows(): Promise<void> {
          throw new Error("unknown option `--load-file'");
        }
      })(),
    ],
  ])("deletes flows kind by kind with a conntrack that %s", async (_, table) => {
    const { clean, reports, logger } = makeCleaner(table);
    await clean(WANTED);
    table.flows = KINDS;
    await clean(NONE);
    expect(table.flows).toEqual([]);
    expect(table.deletions).toEqual([2]);
    expect(reports.map(({ deleted }) => deleted.ip)).toEqual([0, 3]);
    expect(logger.lines.filter(({ level }) => level !== "debug")).toEqual([]);
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
    await clean(NONE);
    expect(reports.map(({ deleted }) => deleted.ip)).toEqual([0, 1]);
  });

  test("repeats a deletion without effect, with growing pauses, until the flows are gone", async () => {
    const table = new OldFlowTable();
    const working = table.deleteFlowsLike.bind(table);
    table.deleteFlowsLike = async () => {};
    const { clean, clock, reports, logger } = makeCleaner(table);
    await clean(WANTED);
    table.flows = [TO_DNS];
    await clean(NONE);
    const error = "conntrack reports success, but the flows are still there";
    expect(logger.lines.at(-1)).toMatchObject({ level: "warn", fields: { error } });
    const listings = () => table.listings;
    for (const pause of [1000, 2000, 4000]) {
      const before = table.listings;
      clock.advance(pause - 1);
      expect(table.listings).toBe(before);
      clock.advance(1);
      await vi.waitUntil(() => listings() === before + 3 && clock.timers === 1);
    }
    table.deleteFlowsLike = working;
    clock.advance(8000);
    await vi.waitUntil(() => reports.length === 2);
    expect([table.flows, clock.timers]).toEqual([[], 0]);
  });

  test("repeats a cleaning after a conntrack that failed, without any change of a Service", async () => {
    const { clean, clock, table, reports } = makeCleaner();
    await clean(WANTED);
    table.flows = [TO_DNS];
    table.error = new Error("conntrack failed");
    await clean(NONE);
    table.error = undefined;
    clock.advance(1000);
    await vi.waitUntil(() => reports.length === 2);
    expect([table.flows, clock.timers]).toEqual([[], 0]);
  });

  test("deletes many flows a few thousand at a time while they are listed", async () => {
    const { clean, table, reports } = makeCleaner();
    table.flows = Array.from({ length: 12_000 }, (_, id) => ({ ...TO_DNS, id }));
    await clean(WANTED);
    await clean(NONE);
    expect(table.deletions).toEqual([5000, 5000, 2000]);
    expect(reports.at(-1)?.deleted).toEqual({ ip: 12_000, ip6: 0 });
  });

  test("does only the last of several requests during a cleaning, with the frontends of all of them", async () => {
    const { clean, table } = makeCleaner();
    table.flows = [TO_DNS];
    const other = frontends({ "10.96.0.12 . 53": ["10.244.1.5 . 5300"] });
    await Promise.all([clean(other), clean(WANTED), clean(other)]);
    expect(table.listings, "with one that looks whether it is gone").toBe(3);
    expect(table.deleted).toEqual([TO_DNS]);
  });

  test("deletes the flows of a NodePort at an address that has none any more, once", async () => {
    const { clean, table, view } = makeCleaner();
    const translated = flow(`${NODE} . 30053`, "10.244.1.5 . 5300");
    table.flows = [translated];
    await clean(WANTED);
    expect(table.deleted).toEqual([]);
    view.hosts = new Set();
    table.error = new Error("conntrack failed");
    await clean(WANTED);
    table.error = undefined;
    await clean(WANTED);
    await clean(WANTED);
    expect(table.deleted).toEqual([translated]);
  });

  test("keeps flows to an endpoint that is added while the table is listed", async () => {
    const { clean, clock, table, view, reports } = makeCleaner();
    clock.advance(1000);
    const stale = flow("10.96.0.10 . 53", "10.244.9.9 . 5300");
    table.flows = [stale, flow("10.96.0.10 . 53", "10.244.3.5 . 5300")];
    table.whileListed = () => {
      clock.advance(4000);
      view.frontends = frontends({ "10.96.0.10 . 53": ["10.244.1.5 . 5300", "10.244.3.5 . 5300"] });
    };
    await clean(WANTED);
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
    await clean(NONE);
    expect(lines()).toMatchObject([{ level: "warn", fields: { error: "conntrack failed: ENOENT" } }]);
    table.error = undefined;
    await clean(NONE);
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

const ofHost = async () => ({ ip: ["127.0.0.1", "192.0.2.2", "192.0.2.3"], ip6: ["::1", "fd00::2"] });

test.each([
  [
    "the selected ones where some are selected, without reading the host",
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
] as const)("the addresses that serve NodePorts are %s", async (title, selected, expected) => {
  const read = title.includes("without reading") ? () => Promise.reject(new Error("read")) : ofHost;
  expect([...(await nodePortHosts(selected, read))]).toEqual(expected);
});

test.each([
  ["virtual", { ranges: [{ first: 80, last: 90 }] }, ["192.0.2.2"]],
  ["virtual", {}, []],
  ["all", { ranges: [{ first: 80, last: 90 }] }, []],
  ["off", { ranges: [{ first: 80, last: 90 }] }, []],
] as const)(
  "with --port-ranges %s, of a UDP port with %o, %o is without ranges",
  async (mode, spec, expected) => {
    const cache = cacheOf({ services: [service({ ports: [port(53, { protocol: "udp", ...spec })] })] });
    const view = new UdpServicePorts(cache);
    view.update([named("web")]);
    expect([...(await hostsWithoutRanges(mode, view.ports(new Set()), async () => ["192.0.2.2"]))]).toEqual(
      expected,
    );
  },
);

describe("UdpServicePorts", () => {
  const udp = (name: string, address: string, createdAt: number) =>
    service({ name, createdAt, clusterIPs: [address], ports: [port(53, { protocol: "udp" }), port(53)] });

  test("reports whether a changed Service has or had a UDP port", () => {
    const cache = cacheOf({ services: [udp("dns", "10.96.0.53", 1), service()] });
    const view = new UdpServicePorts(cache);
    expect(view.update([named("web")])).toBe(false);
    expect(view.update([named("web"), named("dns")])).toBe(true);
    cache.deleteService(named("dns"));
    expect(view.update([named("dns")]), "it had one").toBe(true);
    expect(view.update([named("dns")])).toBe(false);
  });

  test("does not count endpoints that have terminated for too long", () => {
    const cache = cacheOf({
      services: [udp("dns", "10.96.0.53", 1)],
      slices: [
        slice({
          service: "dns",
          ports: [{ name: "", protocol: "udp", port: 53 }],
          endpoints: ["10.244.2.11", "10.244.2.12"],
        }),
      ],
    });
    const view = new UdpServicePorts(
      cache,
      () => (service, endpoint) => service === "default/dns" && endpoint.address === "10.244.2.11",
    );
    view.update([named("dns")]);
    const targets = view.ports(new Set()).map(({ endpoints }) => endpoints?.map(({ target }) => target));
    expect(targets).toEqual([["10.244.2.12 . 53"]]);
  });

  test("gives only UDP ports, the older Service first, with the endpoints of their family", () => {
    const cache = cacheOf({
      services: [udp("young", "10.96.0.53", 9), udp("old", "10.96.0.54", 1)],
      slices: [
        slice({
          service: "old",
          ports: [{ name: "", protocol: "udp", port: 5353 }],
          endpoints: ["10.244.2.11"],
        }),
        slice({
          service: "old",
          ports: [{ name: "", protocol: "udp", port: 5353 }],
          endpoints: ["fd00:244:2::11"],
        }),
      ],
    });
    const view = new UdpServicePorts(cache);
    view.update([named("young"), named("old")]);
    const ports = (quarantine: ReadonlySet<ServicePortKey>) =>
      view
        .ports(quarantine)
        .map(({ port: { name }, endpoints }) => [name, endpoints?.map(({ target }) => target)]);
    expect(ports(new Set())).toEqual([
      ["default/old/udp", ["10.244.2.11 . 5353"]],
      ["default/young/udp", []],
    ]);
    const [old] = view.ports(new Set());
    expect(ports(new Set(old && [old.port.key])), "in quarantine, it has no rules").toEqual([
      ["default/young/udp", []],
      ["default/old/udp", undefined],
    ]);
  });
});
