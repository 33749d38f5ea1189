import { describe, expect, test } from "vitest";
import { Metrics } from "../../../src/daemon/metrics/metrics.ts";
import type { FeatureHost } from "../../../src/features/seam/daemon-part.ts";
import { createDaemonPart } from "../../../src/features/service-counters/daemon-part.ts";
import type { ServiceCounters } from "../../../src/features/service-counters/feature.ts";
import type { TableReader } from "../../../src/kernel/table-reader.ts";
import { viewService } from "../../../src/ruleset/service-view.ts";
import {
  cacheOf,
  localEndpoint,
  named,
  port,
  renderAll,
  service,
  slice,
  testNodeContext,
} from "../../support/build.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { memoryLogger } from "../../support/memory-logger.ts";

const WEB = {
  services: [
    service({
      clusterIPs: ["10.96.0.10"],
      ports: [port(80, { nodePort: 30_080, ranges: [{ first: 8080, last: 8099 }] })],
      external: "Local",
    }),
  ],
  slices: [slice({ endpoints: [localEndpoint("10.244.1.1"), "10.244.2.2"] })],
};

/** A Service's elements, each of which counted `count` connections. */
function counting(serviceCounters: ServiceCounters, count: (key: string, value: string) => number) {
  const nodeContext = testNodeContext({ settings: { serviceCounters } });
  const { state } = renderAll(WEB, nodeContext);
  const [clock, logger] = [new ManualClock(), memoryLogger()];
  const tables: Pick<TableReader, "elements"> = {
    elements: async function* (family, spec) {
      const elements = state.families[family]?.table.sets.get(spec.name)?.elements ?? new Map();
      yield [...elements].map(([key, value]) => ({ key, value, packets: count(key, value) }));
    },
  };
  const host = { clock, logger, tables, state: () => state };
  const part = createDaemonPart(host as unknown as FeatureHost);
  const metrics = new Metrics();
  metrics.addFeature(part);
  const scrape = async () => {
    const text = await metrics.registry.metrics();
    return text.split("\n").filter((line) => /^nft_proxy_\w+_connections_total/.test(line));
  };
  return { clock, logger, part, scrape, nodeContext, state };
}

test("each frontend and each endpoint with connections has one series, however many elements it has", async () => {
  const { scrape } = counting("endpoints", (_, value) => (value.startsWith("10.244.2.2") ? 0 : 7));
  const series = (kind: string, target: string, connections: number) =>
    `nft_proxy_${kind}_connections_total{ip_family="IPv4",namespace="default",service="web",port="80",` +
    `protocol="tcp",target="${target}"} ${connections}`;
  expect(await scrape()).toEqual([
    series("service", "10.96.0.10:80", 7),
    series("service", "nodePort:30080", 7),
    series("service", "10.96.0.10:8080-8099", 7),
    series("endpoint", "10.244.1.1:8080", 14),
    series("endpoint", "10.244.1.1", 14),
  ]);
});

test("the status page gets the connections of frontends and endpoints", async () => {
  const lookup = async (serviceCounters: ServiceCounters) => {
    const { part, nodeContext, state } = counting(serviceCounters, () => 7);
    const connections = await part.connections?.();
    return viewService(cacheOf(WEB), named("web"), nodeContext, state).flatMap((view) => [
      ...view.frontends.map((frontend) => connections?.toFrontend(view.port, frontend)),
      ...view.endpoints.map(({ endpoint: { address, port } }) =>
        connections?.toEndpoint(view.port, address, port),
      ),
    ]);
  };
  expect(await lookup("endpoints")).toEqual([7, 7, 7, 28, 14]);
  expect(await lookup("services")).toEqual([7, 7, 7, undefined, undefined]);
});

describe("a reading", () => {
  const ofNodePort = (key: string) => key.startsWith("0.0.0.0 ");
  const shown = (lines: readonly string[]) =>
    lines.flatMap((line) => /nodePort:30080"\} (\d+)$/.exec(line)?.slice(1).map(Number) ?? []);

  test("is shared by both metrics, and by all scrapes within the maximum age", async () => {
    let reads = 0;
    const { scrape, clock } = counting("endpoints", (key) => (ofNodePort(key) ? ++reads : 0));
    await Promise.all([scrape(), scrape()]);
    clock.advance(4999);
    expect(shown(await scrape())).toEqual([1]);
    clock.advance(1);
    expect(shown(await scrape())).toEqual([2]);
  });

  test("is used for twenty times its duration if it is slow", async () => {
    let reads = 0;
    const { scrape, clock } = counting("services", (key) => {
      if (ofNodePort(key)) {
        reads += 1;
        clock.advance(2400);
      }
      return 0;
    });
    await scrape();
    clock.advance(20 * 2400 - 1);
    await scrape();
    expect(reads).toBe(1);
    clock.advance(1);
    await scrape();
    expect(reads).toBe(2);
  });

  test("leaves the last values if it fails, which is logged", async () => {
    let fails = false;
    const { scrape, clock, logger } = counting("services", () => {
      if (fails) throw new Error("nft is busy");
      return 7;
    });
    await scrape();
    fails = true;
    for (const _ of "12") {
      clock.advance(5000);
      expect(shown(await scrape())).toEqual([7]);
    }
    fails = false;
    clock.advance(5000);
    await scrape();
    expect(logger.lines.map(({ level, message }) => [level, message])).toEqual([
      ["warn", "cannot read the connection counters, retrying (logged once)"],
      ["debug", "cannot read the connection counters, retrying"],
      ["info", "can read the connection counters again"],
    ]);
  });
});
