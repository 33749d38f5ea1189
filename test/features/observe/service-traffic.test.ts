import { describe, expect, test } from "vitest";
import { Metrics } from "../../../src/daemon/metrics/metrics.ts";
import { accountingSettings } from "../../../src/features/observe/accounting.ts";
import { ServiceTraffic } from "../../../src/features/observe/service-traffic.ts";
import type { FeatureHost } from "../../../src/features/seam/daemon-part.ts";
import type { Flow } from "../../../src/kernel/conntrack.ts";
import { cacheOf, port, renderAll, service, slice, testNodeContext } from "../../support/build.ts";
import { FakeFlowListener } from "../../support/fake-flow-listener.ts";
import { FakeFlowTable, flow } from "../../support/fake-flow-table.ts";
import { FakeHostFiles } from "../../support/fake-host-files.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { memoryLogger } from "../../support/memory-logger.ts";
import { OBJECTS } from "./command-host.ts";

const OFF = { "/proc/sys/net/netfilter/nf_conntrack_acct": "0\n" };

/** Settles promises that wait for nothing. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

async function observing(
  options: { readonly files?: Readonly<Record<string, string>>; readonly objects?: typeof OBJECTS } = {},
) {
  const { files = {}, objects = OBJECTS } = options;
  const clock = new ManualClock(Date.UTC(2026, 10, 20));
  const logger = memoryLogger();
  const [listener, table] = [new FakeFlowListener(), new FakeFlowTable()];
  const nodeContext = testNodeContext();
  const { state } = renderAll(objects, nodeContext);
  const host: Partial<FeatureHost> = {
    clock,
    logger,
    files: new FakeHostFiles(files),
    flows: table,
    listenToFlows: listener.listen,
    cache: cacheOf(objects),
    state: () => state,
    nodeContext: () => nodeContext,
    localAddresses: () => [],
    settings: { observe: "connections" },
  };
  const part = new ServiceTraffic(host as FeatureHost);
  const metrics = new Metrics();
  metrics.addFeature(part);
  const series = async (name: string) =>
    (await metrics.registry.metrics()).split("\n").filter((line) => line.startsWith(`${name}{`));
  part.synced();
  await settled();
  const pass = async (one: Flow) => {
    listener.report("created", { ...one, state: "syn_sent" });
    listener.report("deleted", { ...one, state: "established" });
    await settled();
  };
  return { part, clock, logger, listener, table, series, pass };
}

const COUNTED = flow({
  sent: { packets: 6, bytes: 412 },
  received: { packets: 5, bytes: 1204 },
  startedAt: 1000,
  stoppedAt: 3500,
});

describe("the metrics of observed connections", () => {
  test("have connections, bytes and durations of each Service", async () => {
    const { series, pass } = await observing();
    for (const _ of "12") await pass(COUNTED);
    const labels = 'namespace="default",service="web"';
    expect(await series("nft_proxy_observed_connections_total")).toEqual([
      `nft_proxy_observed_connections_total{${labels},event="began"} 2`,
      `nft_proxy_observed_connections_total{${labels},event="ended"} 2`,
    ]);
    expect(await series("nft_proxy_observed_bytes_total")).toEqual([
      `nft_proxy_observed_bytes_total{${labels},direction="sent"} 824`,
      `nft_proxy_observed_bytes_total{${labels},direction="received"} 2408`,
    ]);
    const duration = "nft_proxy_observed_connection_duration_seconds";
    expect(await series(`${duration}_bucket`)).toContain(`${duration}_bucket{${labels},le="10"} 2`);
    expect(await series(`${duration}_sum`)).toEqual([`${duration}_sum{${labels}} 5`]);
  });

  test("count the Services beyond a number of them together", async () => {
    const addresses = Array.from({ length: 1003 }, (_, index) => `10.97.${index >> 8}.${index & 255}`);
    const objects = {
      services: addresses.map((address, index) =>
        service({ name: `shop/s${index}`, clusterIPs: [address], ports: [port(80)] }),
      ),
      slices: addresses.map((_, index) => slice({ service: `shop/s${index}`, endpoints: ["10.244.1.5"] })),
    };
    const { series, pass } = await observing({ objects: objects as unknown as typeof OBJECTS });
    for (const address of addresses) await pass({ ...COUNTED, destination: { address, port: 80 } });
    const all = await series("nft_proxy_observed_connections_total");
    expect(all).toHaveLength(2 * 1001);
    expect(all.at(-1)).toBe('nft_proxy_observed_connections_total{namespace="",service="",event="ended"} 3');
  });

  test("say what they lack", async () => {
    const { series, listener, clock } = await observing();
    listener.dropped = 5;
    listener.report("changed", flow({ state: "time_wait" }));
    clock.advance(20);
    await settled();
    const lost = 'nft_proxy_observed_lost_total{what="';
    const values = async () =>
      (await series("nft_proxy_observed_lost_total")).map((line) => line.replace(lost, ""));
    expect(await values()).toEqual(['notifications"} 5', 'figures"} 1']);
    listener.fail(new Error("socat ended"));
    expect(await values()).toEqual(['notifications"} 5', 'figures"} 1']);
  });

  test("lack the figures that cannot be read, whose reason is logged once", async () => {
    const { listener, table, clock, logger } = await observing();
    table.error = new Error("the kernel's conntrack table: error 1");
    for (const id of [1, 2]) {
      listener.report("changed", flow({ id, state: "time_wait" }));
      clock.advance(20);
      await settled();
    }
    expect(logger.lines.slice(1).map(({ level, fields }) => [level, fields.error])).toEqual([
      ["warn", "the kernel's conntrack table: error 1"],
      ["debug", "the kernel's conntrack table: error 1"],
    ]);
  });

  test("count once what is read while listening ends", async () => {
    const { series, listener } = await observing();
    const lost = async () => (await series("nft_proxy_observed_lost_total"))[0]?.split(" ")[1];
    listener.dropped = 5;
    expect(await lost()).toBe("5");
    const end = () => {
      listener.fail(new Error("socat ended"));
      return 5;
    };
    Object.defineProperty(listener, "dropped", { get: end });
    expect(await lost()).toBe("5");
  });

  test("never lose what they lacked, although the kernel forgets it with the socket", async () => {
    const { series, listener } = await observing();
    const lost = async () => (await series("nft_proxy_observed_lost_total"))[0]?.split(" ")[1];
    listener.dropped = 5;
    expect(await lost()).toBe("5");
    listener.dropped = 0;
    expect(await lost()).toBe("5");
    listener.fail(new Error("socat ended"));
    expect(await lost()).toBe("5");
  });
});

test("listening starts again after it ended, which is logged, until the daemon stops", async () => {
  const { part, clock, logger, listener } = await observing();
  listener.fail(new Error("socat ended"));
  expect(part.card()?.lines).toContain("connections are not observed: see the log");
  clock.advance(29_999);
  await settled();
  expect(listener.isHeard).toBe(false);
  clock.advance(1);
  await settled();
  expect(listener.isHeard).toBe(true);
  expect(logger.lines.map(({ message }) => message)).toEqual([
    "observing connections",
    "cannot observe connections: their metrics stand still (logged once)",
    "can observe connections again",
  ]);
  part.stop();
  expect(listener.isHeard).toBe(false);
});

test("the card shows the busiest Services of the last whole minute, and what the kernel does not count", async () => {
  const { part, clock, pass, logger } = await observing({ files: OFF });
  const hint = "bytes are not counted: nf_conntrack_acct is off";
  expect(logger.lines).toMatchObject([{ fields: { lacks: [expect.stringContaining(hint)] } }]);
  await pass(COUNTED);
  expect(part.card()).toMatchObject({ tone: "good", lines: ["to 1 Service began since the start", hint] });
  clock.advance(60_000);
  await settled();
  expect(part.card()).toEqual({
    title: "Busiest Services",
    tone: "good",
    value: "1 connection",
    lines: ["to 1 Service began in the last whole minute", hint],
    list: ["default/web: 1 connection, 1616 B"],
  });
  clock.advance(60_000);
  await settled();
  expect(part.card()).toMatchObject({ tone: "idle", value: "0 connections", list: [] });
});

test.each([
  ["off", 0],
  ["connections", 0],
  ["accounting", 2],
])("--observe=%s switches on %i sysctls", (mode, count) => {
  expect(accountingSettings({ observe: mode })).toHaveLength(count);
});
