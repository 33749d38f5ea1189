import { describe, expect, test } from "vitest";
import { statusPage } from "../../../../src/daemon/status/status-page.ts";
import type { FeatureCard } from "../../../../src/features/seam/daemon-part.ts";
import type { ServicePortKey } from "../../../../src/model/ids.ts";
import { servicePortsOf } from "../../../../src/model/service-port.ts";
import { endpoint, type Objects, port, service, slice, slicePort } from "../../../support/build.ts";
import { daemonStatus, NOW } from "../../../support/status.ts";

const MOST_BYTES = 500_000;

const upTo = <T>(count: number, make: (index: number) => T) =>
  Array.from({ length: count }, (_, index) => make(index));
const addressOf = (first: number, index: number) =>
  `${first}.${index >> 16}.${(index >> 8) & 255}.${index & 255}`;

/** A Service name of the greatest length that the API server accepts. */
const longName = (index: number) => `${"n".repeat(63)}/${"s".repeat(58)}${10_000 + index}`;

/**
 * Endpoints with the longest texts that an EndpointSlice may have, of characters that take six bytes in the
 * page.
 */
const endpoints = upTo(1000, (i) =>
  endpoint(`fd00:1111:2222:3333:4444:5555:6666:${(0x1000 + i).toString(16)}`, {
    nodeName: '"'.repeat(253),
    zone: "'".repeat(253),
    pod: `${"p".repeat(63)}/${"&".repeat(253)}`,
  }),
);

/** Objects of one tenant, by the kind of which there are many. */
const HOSTILE: Readonly<Record<string, () => Objects>> = {
  "Services with one address and 100 ports each": () => {
    const ports = upTo(100, (i) => port(1000 + i, { name: `${"p".repeat(12)}${100 + i}` }));
    return {
      services: upTo(100, (i) =>
        service({
          name: longName(i),
          createdAt: i,
          clusterIPs: [addressOf(10, i)],
          externalIPs: ["203.0.113.1"],
          ports,
        }),
      ),
    };
  },
  "a Service of 20 ports at 1,000 addresses with 1,000 endpoints": () => {
    const ports = upTo(20, (i) => port(1000 + i, { name: `p${i}` }));
    const addresses = upTo(1000, (i) => `fd00:9999:2222:3333:4444:5555:6666:${(0x1000 + i).toString(16)}`);
    return {
      services: [service({ name: longName(0), clusterIPs: ["fd00:96::1"], externalIPs: addresses, ports })],
      slices: [
        slice({
          service: longName(0),
          endpoints,
          ports: upTo(20, (i) => slicePort(1000 + i, { name: `p${i}` })),
        }),
      ],
    };
  },
  "a Service of one port with 1,000 endpoints": () => ({
    services: [service({ name: longName(0), clusterIPs: ["fd00:96::1"] })],
    slices: [slice({ service: longName(0), endpoints })],
  }),
  "Services of one port": () => ({
    services: upTo(2000, (i) =>
      service({ name: longName(i), clusterIPs: [addressOf(10, i), `fd00:96::${i + 1}`] }),
    ),
    slices: upTo(200, (i) => slice({ service: longName(i), endpoints: endpoints.slice(0, 30) })),
  }),
  "a Service of 585 ports at 2,000 addresses, beyond its budget": () => ({
    services: [
      service({
        name: longName(0),
        externalIPs: upTo(2000, (i) => addressOf(203, i)),
        ports: upTo(585, (i) => port(1000 + i, { name: `p${i}` })),
      }),
    ],
  }),
};

describe("the status page has less than 500 kB", () => {
  test.each(Object.keys(HOSTILE))("for %s that are all quarantined, pending and in conflict", (what) => {
    const objects = HOSTILE[what]?.() ?? {};
    const services = objects.services ?? [];
    const reason = `nft fails on its rules: ${"<".repeat(2000)}`;
    const keys = services.flatMap((one) => servicePortsOf(one).map(({ key }) => key));
    const quarantined = new Map(keys.map((key): [ServicePortKey, string] => [key, reason]));
    const { history } = daemonStatus({});
    const line = upTo(500, longName).join();
    const cards: readonly FeatureCard[] = [
      { title: "Feature", tone: "idle", value: "7", lines: [line], list: upTo(1000, () => line) },
    ];
    const states = [
      {},
      {
        quarantined,
        cards,
        history: { ...history, problem: "&".repeat(100_000) },
        pending: { since: NOW, services: services.map(({ name }) => name) },
      },
    ];
    const name = longName(0);
    const queries = [
      {},
      { page: "2" },
      { show: "problems" },
      { q: "s" },
      { service: name },
      { service: name, page: "2" },
    ];
    for (const state of states) {
      const status = daemonStatus(objects, state);
      for (const query of queries) {
        const body = statusPage(status, new URLSearchParams(query as Record<string, string>)).body;
        expect(Buffer.byteLength(body), JSON.stringify(query)).toBeLessThan(MOST_BYTES);
      }
    }
  });
});

test("a Service of many ports is shown on several pages, which count the rows that are not shown", () => {
  const ports = upTo(120, (i) => port(1000 + i, { name: `p${i}` }));
  const services = [
    service({
      name: "a",
      clusterIPs: ["10.96.0.1"],
      externalIPs: upTo(100, (i) => addressOf(203, i)),
      ports,
    }),
    service({ name: "b", clusterIPs: ["10.96.0.2"] }),
  ];
  const page = (query: string) => statusPage(daemonStatus({ services }), new URLSearchParams(query)).body;
  expect(page("")).toContain("2 of 2 Services, page 1 of 3");
  expect(page("")).toContain("ports 1 to 50 of 120");
  expect(page("page=3")).toContain("ports 101 to 120 of 120");
  expect(page("page=3")).toContain(">default/b</a>");
  expect(page("page=2")).not.toContain(">default/b</a>");
  const own = page("service=default%2Fa&page=2");
  expect(own).toContain("ports 51 to 100 of 120");
  expect(own).toContain("nft-proxy explain default/a lists all");
  expect(own.match(/class="port"/g)).toHaveLength(50);
});
