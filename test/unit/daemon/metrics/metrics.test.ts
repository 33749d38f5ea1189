import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { Metrics } from "../../../../src/daemon/metrics/metrics.ts";
import { INITIAL_STATE } from "../../../../src/kube/source.ts";
import { scrapedParts } from "../../../support/metric-values.ts";
import { syncReport } from "../../../support/sync-report.ts";

/** Returns each metric of a text exposition, with its type, its labels except `le`, and its buckets. */
function parseExposition(text: string) {
  const metrics = new Map<string, { type: string; labels: Set<string>; buckets: Set<string> }>();
  for (const line of text.split("\n")) {
    const [, comment, name, rest] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? [];
    if (name !== undefined && !metrics.has(name))
      metrics.set(name, { type: "", labels: new Set(), buckets: new Set() });
    if (comment === "TYPE" && name !== undefined) Object.assign(metrics.get(name) ?? {}, { type: rest });
    const sample = /^(\w+?)(_bucket|_sum|_count)?(?:\{(.*)\})? \S+$/.exec(line);
    const metric = metrics.get(sample?.[1] ?? "");
    for (const [, label = "", value = ""] of (sample?.[3] ?? "").matchAll(/(\w+)="([^"]*)"/g)) {
      if (label === "le") metric?.buckets.add(value);
      else metric?.labels.add(label);
    }
  }
  return metrics;
}

function recordedBuckets(text: string): string[] {
  if (text === "") return [];
  if (text === "x2") return [...Array.from({ length: 15 }, (_, i) => String(2 ** i / 1000)), "+Inf"];
  const numbers = ["0.25", "0.5"];
  for (let value = 1; value < 60; value += 1) numbers.push(String(value));
  for (let value = 60; value < 120; value += 5) numbers.push(String(value));
  for (let value = 120; value <= 300; value += 30) numbers.push(String(value));
  return [...numbers, "+Inf"];
}

const recorded = readFileSync(
  new URL("../../../fixtures/kube-proxy/metrics-nftables.tsv", import.meta.url),
  "utf8",
)
  .split("\n")
  .filter((line) => line !== "" && !line.startsWith("#"))
  .map((line) => line.split("\t"));

describe("metrics", () => {
  test.each(recorded)(
    "%s has the type, labels and buckets of kube-proxy's metric",
    async (name = "", type = "", labels = "", buckets = "") => {
      const metrics = new Metrics();
      metrics.observe("synced", { report: syncReport(), families: ["ip"] });
      metrics.readFrom(scrapedParts({ runner: { lastRequestedAt: 1000 } }));
      const metric = parseExposition(await metrics.registry.metrics()).get(name);
      expect(metric?.type).toBe(type);
      expect([...(metric?.labels ?? [])].sort()).toEqual(labels.split(",").filter(Boolean).sort());
      expect([...(metric?.buckets ?? [])]).toEqual(recordedBuckets(buckets));
    },
  );

  test("with the prefix kubeproxy_ are exactly the recorded ones, and all names have a known prefix", async () => {
    const names = new Metrics().registry.getMetricsAsArray().map(({ name }) => name);
    const ofLater = /^kubeproxy_nftables_localhost_nodeport_/;
    const own = names.filter((name) => name.startsWith("kubeproxy_") && !ofLater.test(name));
    expect(own.sort()).toEqual(recorded.map(([name]) => name).sort());
    for (const name of names) expect(name).toMatch(/^(kubeproxy|nft_proxy|process|nodejs|rest_client)_/);
  });

  test("start at zero if they are counters, and are in base units if they are about the process", async () => {
    const text = await new Metrics().registry.metrics();
    expect(text).toContain('kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family="IPv6"} 0\n');
    expect(text).toContain('kubeproxy_proxy_healthz_total{code="503"} 0\n');
    expect(text).toMatch(/^process_cpu_seconds_total [\d.]+$/m);
    expect(text).toMatch(/^process_resident_memory_bytes \d{7,}$/m);
    expect(text).toMatch(/^process_start_time_seconds 1\d{9}$/m);
    expect(text).toMatch(/^nodejs_eventloop_lag_p99_seconds [\d.e-]+$/m);
  });

  test("about the build have the versions of nft-proxy, nft, the kernel and Node.js", async () => {
    const metrics = new Metrics();
    const nft = "nftables v1.1.3 (Commodore Bullmoose #4)";
    metrics.observe("started", {
      version: "1.2.3",
      nft,
      kernel: "6.18.1",
      socat: "1.8.0.3",
      nodejs: "v20.20.2",
    });
    expect(await metrics.registry.metrics()).toContain(
      'nft_proxy_build_info{version="1.2.3",nft="1.1.3",kernel="6.18.1",nodejs="v20.20.2"} 1\n',
    );
  });
});

test("reflector metrics show the state at each scrape", async () => {
  const metrics = new Metrics();
  const states = {
    services: INITIAL_STATE,
    endpointslices: INITIAL_STATE,
    nodes: { ...INITIAL_STATE, failure: "connection refused" },
    servicecidrs: INITIAL_STATE,
  };
  metrics.readFrom(scrapedParts({ source: { states: () => states } }));
  await metrics.registry.metrics();
  const { errors } = states.services;
  states.services = {
    ...states.services,
    synced: true,
    lastEventAt: 5500,
    relists: 2,
    objects: 3,
    errors: { ...errors, gone: 4 },
  };
  const text = await metrics.registry.metrics();
  const prefix = "nft_proxy_reflector_";
  expect(text).toContain(`${prefix}last_event_timestamp_seconds{resource="services"} 5.5\n`);
  expect(text).toContain(`${prefix}relists_total{resource="services"} 2\n`);
  expect(text).toContain(`${prefix}objects{resource="services"} 3\n`);
  expect(text).toContain(`${prefix}errors_total{resource="services",kind="gone"} 4\n`);
  expect(text).toContain(`${prefix}connected{resource="services"} 1\n`);
  expect(text).toContain(`${prefix}connected{resource="nodes"} 0\n`);
  // Its first list is not complete.
  expect(text).toContain(`${prefix}connected{resource="servicecidrs"} 0\n`);
});

test("requests to the API server are counted and timed as client-go does", async () => {
  const metrics = new Metrics();
  metrics.observe("apiRequest", { method: "GET", host: "10.96.0.1:443", code: "200", seconds: 0.2 });
  metrics.observe("apiRequest", { method: "GET", host: "10.96.0.1:443", code: "<error>", seconds: 3 });
  const text = await metrics.registry.metrics();
  expect(text).toContain('rest_client_requests_total{code="200",method="GET",host="10.96.0.1:443"} 1\n');
  expect(text).toContain('rest_client_requests_total{code="<error>",method="GET",host="10.96.0.1:443"} 1\n');
  expect(text).toContain(
    'rest_client_request_duration_seconds_bucket{le="0.25",verb="GET",host="10.96.0.1:443"} 1\n',
  );
  expect(text).toContain('rest_client_request_duration_seconds_sum{verb="GET",host="10.96.0.1:443"} 3.2\n');
});
