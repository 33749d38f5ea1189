import { expect, test } from "vitest";
import { SyncHistory } from "../../../../src/daemon/health/sync-history.ts";
import type { ContainerMemory } from "../../../../src/kernel/memory-usage.ts";
import type { ServicePortKey } from "../../../../src/model/ids.ts";
import { localEndpoint, port, renderAll, service, slice } from "../../../support/build.ts";
import { metricValue, scrapedParts, testMetrics } from "../../../support/metric-values.ts";

const local = service({ internal: "Local", external: "Local", ports: [port(80, { nodePort: 30080 })] });
const tracker = {
  serviceChanges: { total: 7, unsynced: 2 },
  endpointChanges: { total: 9, unsynced: 0 },
  nodeLacks: ["addresses"],
};
const runner = { lastRequestedAt: 1500 };
const health: { pendingSince: number | undefined } = { pendingSince: 1200 };
const history = new SyncHistory();
const excludedFamilies = new Map([["ip6", "not supported"] as const]);

test("the state gauges show the current state, with times in seconds", async () => {
  const metrics = testMetrics();
  const value = (name: string, labels = "") => metricValue(metrics, name, labels);
  const quarantined = new Map([["ip default/bad/tcp" as ServicePortKey, "the kernel refuses its rules"]]);
  const { state } = renderAll({ services: [local], slices: [slice({ endpoints: ["10.244.2.11"] })] });
  metrics.readFrom(
    scrapedParts({ reconciler: { state, quarantined, excludedFamilies }, tracker, runner, health, history }),
  );
  expect(await value("nft_proxy_quarantined_service_ports")).toBe(1);
  expect(await value("nft_proxy_service_quarantined", 'namespace="default",service="bad"')).toBe(1);
  expect(await value("nft_proxy_excluded_family", "IPv4")).toBe(0);
  expect(await value("nft_proxy_excluded_family", "IPv6")).toBe(1);
  expect(await value("nft_proxy_node_lacks", 'field="addresses"')).toBe(1);
  expect(await value("nft_proxy_node_lacks", 'field="zone"')).toBe(0);
  expect(await value("nft_proxy_map_elements", 'family="ip",map="cluster-ips"')).toBe(1);
  expect(await value("nft_proxy_map_capacity", 'family="ip",map="affinity-clients"')).toBe(1024);
  expect(await value("kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds")).toBe(1.5);
  expect(await value("nft_proxy_out_of_sync_since_timestamp_seconds")).toBe(1.2);
  expect(await value("nft_proxy_last_verified_timestamp_seconds")).toBe(0);
  history.verified(9000);
  health.pendingSince = undefined;
  expect(await value("nft_proxy_out_of_sync_since_timestamp_seconds")).toBe(0);
  expect(await value("nft_proxy_last_verified_timestamp_seconds")).toBe(9);
  expect(await value("kubeproxy_sync_proxy_rules_service_changes_total")).toBe(7);
  expect(await value("kubeproxy_sync_proxy_rules_service_changes_pending")).toBe(2);
  expect(await value("kubeproxy_sync_proxy_rules_endpoint_changes_total")).toBe(9);
});

test("Local policies without a local endpoint are counted until there is one", async () => {
  const show = async (endpoint: ReturnType<typeof localEndpoint> | string) => {
    const metrics = testMetrics();
    const missing = (policy: string) =>
      metricValue(metrics, "kubeproxy_sync_proxy_rules_no_local_endpoints_total", policy);
    const { state } = renderAll({ services: [local], slices: [slice({ endpoints: [endpoint] })] });
    metrics.readFrom(scrapedParts({ reconciler: { state, quarantined: new Map(), excludedFamilies } }));
    return [await missing("internal"), await missing("external")];
  };
  expect(await show("10.244.2.11")).toEqual([1, 1]);
  expect(await show(localEndpoint("10.244.1.11"))).toEqual([0, 0]);
});

test("the memory of the container and of its programs is shown if the host reports it", async () => {
  const show = async (container: ContainerMemory | undefined) => {
    const metrics = testMetrics();
    const programs = async () => [{ program: "nft", resident: 5e6, peak: 90e6 }];
    metrics.readFrom(scrapedParts({ memory: { own: () => 0, container: async () => container, programs } }));
    const value = (name: string) => metricValue(metrics, `nft_proxy_${name}`);
    return {
      container: [
        await value("container_memory_working_set_bytes"),
        await value("container_memory_limit_bytes"),
        await value("container_memory_peak_bytes"),
      ],
      nft: [
        await value('program_memory_bytes{program="nft"}'),
        await value('program_memory_peak_bytes{program="nft"}'),
      ],
    };
  };
  const nft = [5e6, 90e6];
  expect(await show({ workingSet: 300e6, limit: 1e9, peak: 500e6 })).toEqual({
    container: [300e6, 1e9, 500e6],
    nft,
  });
  const none = Number.NaN;
  expect(await show({ workingSet: 300e6, limit: undefined, peak: undefined })).toEqual({
    container: [300e6, none, none],
    nft,
  });
  expect(await show(undefined)).toEqual({ container: [none, none, none], nft });
});

test("refused connections to loopback NodePorts are counted by reason", async () => {
  const metrics = testMetrics();
  const refused = { limit: 0, unreachable: 0 };
  metrics.readFrom(scrapedParts({ loopback: { listeners: { ip: 1, ip6: 0 }, connections: 3, refused } }));
  const value = (reason: string) =>
    metricValue(metrics, "nft_proxy_localhost_nodeport_refused_total", `reason="${reason}"`);
  expect([await value("limit"), await value("unreachable")]).toEqual([0, 0]);
  Object.assign(refused, { limit: 2, unreachable: 5 });
  expect([await value("limit"), await value("unreachable")]).toEqual([2, 5]);
});

test("the Services that lost an address to another have a series each, of which there are at most 100", async () => {
  const metrics = testMetrics();
  const names = [...Array(150).keys()].map((index) => `young-${String(index).padStart(3, "0")}`);
  const winner = service({ name: "old", createdAt: 1, externalIPs: ["192.0.2.9"] });
  const losers = names.map((name, index) =>
    service({ name, createdAt: 2 + index, clusterIPs: [`10.96.1.${index}`], externalIPs: ["192.0.2.9"] }),
  );
  const { state } = renderAll({ services: [winner, ...losers] });
  const reconciler = { state, quarantined: new Map(), excludedFamilies: new Map() };
  metrics.readFrom(scrapedParts({ reconciler, tracker, runner, health, history }));
  const text = await metrics.registry.metrics();
  const found = [
    ...text.matchAll(/^nft_proxy_service_contested\{namespace="default",service="([^"]+)"\} 1$/gm),
  ];
  expect(found.map(([, name]) => name)).toEqual(names.slice(0, 100));
});
