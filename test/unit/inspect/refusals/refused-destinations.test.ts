import { describe, expect, test } from "vitest";
import { refusalsText } from "../../../../src/cli/commands/refusals.ts";
import type { RefusalEntry, SeenRefusal } from "../../../../src/features/seam/refusals.ts";
import { type ExplainInput, hostOf } from "../../../../src/inspect/explain/explain-input.ts";
import {
  explainRefusals,
  type RefusalFilter,
} from "../../../../src/inspect/refusals/refused-destinations.ts";
import { Renderer } from "../../../../src/ruleset/renderer.ts";
import {
  cacheOf,
  endpoint,
  named,
  STARTING,
  service,
  slice,
  testNodeContext,
} from "../../../support/build.ts";
import { schemaErrors } from "../../../support/output-schema.ts";

const NOW = Date.parse("2026-11-21T12:00:00Z");

const cache = cacheOf({
  services: [
    service({ name: "shop/cart", clusterIPs: ["10.96.0.10"] }),
    service({ name: "dns/dns", clusterIPs: ["10.96.0.11"] }),
    service({ name: "edge/metrics", clusterIPs: ["10.96.0.12"] }),
    service({ name: "edge/limited", clusterIPs: ["10.96.0.13"], clientLimits: { connections: 5 } }),
  ],
  slices: [
    slice({ service: "shop/cart", endpoints: [endpoint("10.244.1.5", { ...STARTING, pod: "shop/cart-1" })] }),
    slice({
      service: "dns/dns",
      endpoints: [
        endpoint("10.244.2.9", { pod: "dns/dns-1" }),
        endpoint("192.0.2.2", { pod: "edge/on-this-host" }),
        endpoint("192.0.2.3", { pod: "edge/on-host-a" }),
        endpoint("192.0.2.4", { pod: "edge/on-host-b" }),
      ],
    }),
    slice({ service: "edge/limited", name: "limited", endpoints: [endpoint("10.244.2.8")] }),
    slice({
      service: "edge/metrics",
      endpoints: [endpoint("192.0.2.3", { pod: "edge/exporter" }), endpoint("192.0.2.4", { pod: "" })],
    }),
  ],
});
const renderer = new Renderer(cache, testNodeContext());
renderer.update(cache.takeDirty());
const input: ExplainInput = {
  cache,
  nodeContext: testNodeContext(),
  state: renderer.state,
  ignored: [],
  loadBalancers: [],
  objectsKnown: true,
  host: hostOf(testNodeContext(), ["192.0.2.2"]),
};

function entry(options: Partial<SeenRefusal> = {}): SeenRefusal {
  return {
    family: "ip",
    client: "10.244.2.9",
    address: "10.96.0.10",
    protocol: "tcp",
    port: 80,
    packets: 3,
    silentFor: 60,
    ...options,
  };
}

function brief(entries: readonly RefusalEntry[], filter: RefusalFilter = {}): string[] {
  return explainRefusals(entries, input, filter, NOW).map(({ service, address, now, cause, clients }) => {
    return `${service ?? address} ${now} ${cause} ${clients.map((client) => client.address).join(" ")}`;
  });
}

describe("explainRefusals", () => {
  test("names the limits of a Service whose client was beyond them", () => {
    const entries = [entry({ address: "10.96.0.13" })];
    expect(brief(entries)).toEqual(["edge/limited varies client-limits 10.244.2.9"]);
    const destinations = explainRefusals(entries, input, {}, NOW);
    expect(schemaErrors("refusals", { refusals: destinations })).toEqual([]);
    const text = refusalsText({ destinations, now: NOW, isWatched: false });
    expect(text).toContain(
      "refused at times: a client of Service edge/limited can have 5 connections at a time, and 10.244.2.9 had more",
    );
    expect(text).toContain("nft-proxy connections --service edge/limited --client 10.244.2.9");
  });

  test("groups the clients of a destination, with the cause, the Pods' names and the times", () => {
    const entries = [entry(), entry({ client: "10.244.2.7", packets: 4, silentFor: 4 })];
    const [one] = explainRefusals(entries, input, {}, NOW);
    expect(schemaErrors("refusals", { refusals: [one] })).toEqual([]);
    expect(schemaErrors("refusals", { refusals: [{ ...one, cause: "bad luck" }] })).toHaveLength(1);
    expect(one).toMatchObject({
      service: "shop/cart",
      packets: 7,
      lastAt: "2026-11-21T11:59:56.000Z",
      now: "refused",
      clients: [
        { address: "10.244.2.7", pod: "", packets: 4 },
        { address: "10.244.2.9", pod: "dns/dns-1", packets: 3, lastAt: "2026-11-21T11:59:00.000Z" },
      ],
    });
    expect(one?.message).toContain("not ready");
  });

  test("names no Pod in the host's network, because programs of the host share its address", () => {
    const entries = ["192.0.2.2", "192.0.2.3", "192.0.2.4", "10.244.2.9"].map((client) => entry({ client }));
    const [one] = explainRefusals(entries, input, {}, NOW);
    expect(one?.clients.map(({ address, pod }) => `${address} ${pod}`)).toEqual([
      "10.244.2.9 dns/dns-1",
      "192.0.2.2 ",
      "192.0.2.3 ",
      "192.0.2.4 ",
    ]);
  });

  test("gives the first time of a destination only if that of every client is known", () => {
    const known = [
      entry({ silentFor: 5, firstAt: NOW - 65_000 }),
      entry({ client: "10.244.2.7", silentFor: 8, firstAt: NOW - 725_000 }),
    ];
    const [one] = explainRefusals(known, input, {}, NOW);
    expect([one, ...(one?.clients ?? [])].map((times) => times?.firstAt)).toEqual([
      "2026-11-21T11:47:55.000Z",
      "2026-11-21T11:58:55.000Z",
      "2026-11-21T11:47:55.000Z",
    ]);
    const [mixed] = explainRefusals([...known, entry({ client: "10.244.2.6" })], input, {}, NOW);
    expect(mixed).toMatchObject({ firstAt: undefined });
    const text = refusalsText({
      destinations: mixed === undefined ? [] : [mixed],
      now: NOW,
      isWatched: true,
    });
    expect(text).toContain(": 9 packets of 3 clients, first unknown, last 5s ago\n");
    expect(text).toContain("10.244.2.6: 3 packets, first unknown, last 1m ago\n");
    expect(
      refusalsText({ destinations: one === undefined ? [] : [one], now: NOW, isWatched: true }),
    ).toContain("10.244.2.9 (dns/dns-1): 3 packets, first 1m5s ago, last 5s ago\n");
  });

  test("gives no first time after the last one, which has whole seconds", () => {
    const [one] = explainRefusals([entry({ silentFor: 3, firstAt: NOW - 2600 })], input, {}, NOW);
    expect(one).toMatchObject({ firstAt: "2026-11-21T11:59:57.000Z", lastAt: "2026-11-21T11:59:57.000Z" });
  });

  test("reports a destination whose cause is gone as served now", () => {
    const [one] = explainRefusals([entry({ address: "10.96.0.11" })], input, {}, NOW);
    expect(one).toMatchObject({ service: "dns/dns", now: "served" });
    expect(
      refusalsText({ destinations: one === undefined ? [] : [one], now: NOW, isWatched: false }),
    ).toContain("no longer refused, served");
  });

  test("explains destinations of no Service", () => {
    expect(brief([entry({ address: "10.96.9.9" }), entry({ port: 81 })])).toEqual([
      "10.96.9.9 dropped unallocated-address 10.244.2.9",
      "10.96.0.10 refused unserved-port 10.244.2.9",
    ]);
  });

  test("puts the latest refusal first", () => {
    const entries = [entry({ silentFor: 9 }), entry({ address: "10.96.9.9", silentFor: 1 })];
    expect(brief(entries).map((line) => line.split(" ")[0])).toEqual(["10.96.9.9", "shop/cart"]);
  });

  test.each<[RefusalFilter, number]>([
    [{ namespace: "shop" }, 1],
    [{ namespace: "sho" }, 0],
    [{ service: { service: named("shop/cart") } }, 1],
    [{ service: { service: named("dns/dns") } }, 0],
    [{ client: "10.244.2.9" }, 1],
    [{ client: "10.244.2.8" }, 0],
  ])("with the filter %o gives %i destinations", (filter, count) => {
    expect(brief([entry()], filter)).toHaveLength(count);
  });

  test("selects an unserved port by the Service that has its address", () => {
    expect(brief([entry({ port: 81 })], { namespace: "shop" })).toHaveLength(1);
    expect(brief([entry({ port: 81 })], { service: { service: named("dns/dns") } })).toHaveLength(0);
  });

  test("takes 200,000 clients of one destination", () => {
    const entries = Array.from({ length: 200_000 }, (_, i) => {
      return entry({
        client: `10.${200 + (i >> 16)}.${(i >> 8) & 255}.${i & 255}`,
        firstAt: NOW - 60_000 - i,
      });
    });
    const [one] = explainRefusals(entries, input, {}, NOW);
    expect(one).toMatchObject({ packets: 600_000, firstAt: new Date(NOW - 60_000 - 199_999).toISOString() });
    expect(
      refusalsText({ destinations: one === undefined ? [] : [one], now: NOW, isWatched: true }),
    ).toContain("and 199990 more\n");
  });

  test("explains no more than 1,000 destinations", () => {
    const entries = Array.from({ length: 1200 }, (_, i) => entry({ port: i + 1, silentFor: i }));
    expect(brief(entries)).toHaveLength(1000);
  });
});

test("the text of refusals names destination, cause and clients", () => {
  const entries = Array.from({ length: 12 }, (_, i) =>
    entry({ client: `10.244.2.${100 + i}`, silentFor: i }),
  );
  const text = refusalsText({
    destinations: explainRefusals(entries, input, {}, NOW),
    now: NOW,
    isWatched: false,
  });
  expect(text).toContain(
    "shop/cart at 10.96.0.10:80/tcp: 36 packets of 12 clients, last 0s ago\n  refused: ",
  );
  expect(text).toMatch(/ fails:\n {6}kubectl -n shop describe pod cart-1\n/);
  expect(text).toContain("    10.244.2.100: 3 packets, last 0s ago\n");
  expect(text).toContain("    and 2 more\n");
  expect(refusalsText({ destinations: [], now: NOW, isWatched: true })).toBe(
    "nothing was refused within the last hour\n",
  );
  expect(refusalsText({ destinations: [], now: NOW, isWatched: true }, true)).toBe(
    "no matching refusal within the last hour\n",
  );
});
