import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { debianProgram } from "../support/debian-program.ts";
import { DEPLOY } from "../support/overlays.ts";

// Runs each alert in a real Prometheus rule engine (promtool test rules), with series that make it fire and
// with the series of a healthy daemon.

const RULES = parse(readFileSync(join(DEPLOY, "monitoring/prometheus-rule.yaml"), "utf8")).spec;

/**
 * The values of a series at intervals of a minute, in promtool's notation: `0+1x60` grows by 1 each minute
 * for an hour.
 */
interface Case {
  readonly alert: string;
  /** Series by name and labels, without those of the target. */
  readonly failing: Readonly<Record<string, string>>;
  readonly healthy: Readonly<Record<string, string>>;
  /** The minutes at which the alert fires for the failing series. It stays silent for the healthy ones. */
  readonly at: string;
}

const NODE = 'job="nft-proxy", instance="node-1"';
const BUCKET = "kubeproxy_network_programming_duration_seconds_bucket";

const CASES: readonly Case[] = [
  { alert: "NftProxyTargetDown", failing: { up: "0x30" }, healthy: { up: "1x30" }, at: "20m" },
  {
    alert: "NftProxyRestarting",
    failing: { process_start_time_seconds: "1 600 1200 1800 2400x30" },
    healthy: { process_start_time_seconds: "1x60" },
    at: "10m",
  },
  {
    alert: "NftProxyMemoryNearLimit",
    failing: {
      nft_proxy_container_memory_working_set_bytes: "700000000x30",
      nft_proxy_container_memory_limit_bytes: "1342177280x30",
    },
    // A full sync that uses as much memory for some minutes.
    healthy: {
      nft_proxy_container_memory_working_set_bytes: "300000000x15 900000000x3 300000000x12",
      nft_proxy_container_memory_limit_bytes: "1342177280x30",
    },
    at: "25m",
  },
  {
    alert: "NftProxySyncLate",
    failing: { nft_proxy_out_of_sync_since_timestamp_seconds: "60x30" },
    healthy: { nft_proxy_out_of_sync_since_timestamp_seconds: "0x30" },
    at: "10m",
  },
  {
    alert: "NftProxySyncFailing",
    failing: { kubeproxy_sync_proxy_rules_nftables_sync_failures_total: "0+1x30" },
    healthy: { kubeproxy_sync_proxy_rules_nftables_sync_failures_total: "3x30" },
    at: "25m",
  },
  {
    alert: "NftProxyUnhealthy",
    failing: { 'kubeproxy_proxy_livez_total{code="503"}': "0+6x30" },
    healthy: { 'kubeproxy_proxy_livez_total{code="503"}': "2x30" },
    at: "20m",
  },
  {
    alert: "NftProxyConfigInvalid",
    failing: { nft_proxy_config_last_reload_successful: "0x30" },
    healthy: { nft_proxy_config_last_reload_successful: "1x30" },
    at: "10m",
  },
  {
    alert: "NftProxyRestartNeeded",
    failing: { nft_proxy_config_settings_awaiting_restart: "2x90" },
    healthy: { nft_proxy_config_settings_awaiting_restart: "0x90" },
    at: "80m",
  },
  {
    alert: "NftProxyServiceQuarantined",
    failing: { 'nft_proxy_service_quarantined{namespace="shop", service="cart"}': "1x30" },
    healthy: { nft_proxy_quarantined_service_ports: "0x30" },
    at: "10m",
  },
  {
    alert: "NftProxyFamilyExcluded",
    failing: { 'nft_proxy_excluded_family{ip_family="IPv6"}': "1x30" },
    healthy: { 'nft_proxy_excluded_family{ip_family="IPv6"}': "0x30" },
    at: "15m",
  },
  {
    alert: "NftProxyServiceConflict",
    failing: { 'nft_proxy_service_contested{namespace="shop", service="cart"}': "1x30" },
    healthy: { nft_proxy_contested_service_ports: "0x30" },
    at: "20m",
  },
  {
    alert: "NftProxyRefusalsRising",
    // One Service that was not refused before, one that was refused as often an hour ago, and one with few
    // refusals.
    failing: { 'nft_proxy_refused_packets_total{namespace="shop", service="cart"}': "_x70 0+120x50" },
    healthy: {
      'nft_proxy_refused_packets_total{namespace="shop", service="cart"}': "0+120x120",
      'nft_proxy_refused_packets_total{namespace="shop", service="web"}': "_x70 0+30x50",
      'nft_proxy_refused_packets_total{namespace="", service=""}': "_x70 0+120x50",
    },
    at: "100m",
  },
  {
    alert: "NftProxyRulesChangedByOthers",
    failing: { 'nft_proxy_drift_repairs_total{kind="table"}': "0+1x60" },
    healthy: { 'nft_proxy_drift_repairs_total{kind="table"}': "1x60" },
    at: "50m",
  },
  {
    alert: "NftProxyFullSyncFailing",
    failing: { 'nft_proxy_full_resyncs_total{result="failed"}': "0 0 1x200" },
    healthy: { 'nft_proxy_full_resyncs_total{result="failed"}': "1x200" },
    at: "60m",
  },
  {
    alert: "NftProxyVerificationOverdue",
    failing: { nft_proxy_last_verified_timestamp_seconds: "60x300", process_start_time_seconds: "1x300" },
    healthy: { nft_proxy_last_verified_timestamp_seconds: "0+60x300", process_start_time_seconds: "1x300" },
    at: "280m",
  },
  {
    alert: "NftProxyNotFollowing",
    failing: { 'nft_proxy_reflector_connected{resource="services"}': "0x30" },
    healthy: { 'nft_proxy_reflector_connected{resource="services"}': "1x30" },
    at: "15m",
  },
  {
    alert: "NftProxyApiErrors",
    failing: { 'nft_proxy_reflector_errors_total{resource="services"}': "0+30x60" },
    healthy: { 'nft_proxy_reflector_errors_total{resource="services"}': "0+1x60" },
    at: "40m",
  },
  {
    alert: "NftProxyConntrackNearlyFull",
    failing: { nft_proxy_conntrack_entries: "90x30", nft_proxy_conntrack_capacity: "100x30" },
    healthy: { nft_proxy_conntrack_entries: "50x30", nft_proxy_conntrack_capacity: "100x30" },
    at: "10m",
  },
  {
    alert: "NftProxyClientLimitsNearlyFull",
    failing: {
      'nft_proxy_limited_clients{family="ip", map="client-rates"}': "60000x30",
      'nft_proxy_map_capacity{family="ip", map="client-rates"}': "65536x30",
    },
    healthy: {
      'nft_proxy_limited_clients{family="ip", map="client-rates"}': "60000x9 100x21",
      'nft_proxy_map_capacity{family="ip", map="client-rates"}': "65536x30",
    },
    at: "15m",
  },
  {
    alert: "NftProxyEndpointsEjected",
    failing: {
      'nft_proxy_endpoint_ejected{namespace="shop", service="cart", endpoint="10.1.0.1:80"}': "1x30",
    },
    healthy: {
      'nft_proxy_endpoint_ejected{namespace="shop", service="cart", endpoint="10.1.0.1:80"}': "1x10 _x20",
    },
    at: "20m",
  },
  {
    alert: "NftProxyAffinityMapNearlyFull",
    failing: {
      'nft_proxy_affinity_entries{family="ip"}': "85x30",
      'nft_proxy_map_capacity{family="ip", map="affinity-clients"}': "100x30",
      'nft_proxy_map_capacity{family="ip", map="refused"}': "1000x30",
    },
    healthy: {
      'nft_proxy_affinity_entries{family="ip"}': "75x30",
      'nft_proxy_affinity_entries{family="ip6"}': "75x30",
      'nft_proxy_map_capacity{family="ip", map="affinity-clients"}': "100x30",
      'nft_proxy_map_capacity{family="ip6", map="affinity-clients"}': "100x30",
    },
    at: "15m",
  },
  {
    alert: "NftProxyProgrammingSlow",
    failing: {
      [`${BUCKET}{le="10"}`]: "0x60",
      [`${BUCKET}{le="60"}`]: "0+60x60",
      [`${BUCKET}{le="+Inf"}`]: "0+60x60",
    },
    healthy: {
      [`${BUCKET}{le="10"}`]: "0+60x60",
      [`${BUCKET}{le="60"}`]: "0+60x60",
      [`${BUCKET}{le="+Inf"}`]: "0+60x60",
    },
    at: "45m",
  },
];

let promtool: string;
let directory: string;
beforeAll(() => {
  promtool = debianProgram("trixie", "prometheus", "promtool");
  directory = mkdtempSync(join(tmpdir(), "alerts-"));
  writeFileSync(join(directory, "rules.yaml"), stringify(RULES));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** Returns a series with the labels of the target, unless it names another node. */
function series(name: string): string {
  if (name.includes("instance=")) return name;
  return name.endsWith("}") ? `${name.slice(0, -1)}, ${NODE}}` : `${name}{${NODE}}`;
}

/**
 * Returns promtool's output, or "" if the alert fires once, or not at all. Labels and annotations are not
 * compared.
 */
async function judge({ alert, at }: Case, values: Case["failing"], fires: boolean): Promise<string> {
  const firing = `count(ALERTS{alertname="${alert}", alertstate="firing"}) or vector(0)`;
  const file = join(directory, `${alert}-${fires}.yaml`);
  writeFileSync(
    file,
    stringify({
      rule_files: ["rules.yaml"],
      evaluation_interval: "1m",
      tests: [
        {
          interval: "1m",
          input_series: Object.entries(values).map(([name, text]) => ({
            series: series(name),
            values: text,
          })),
          promql_expr_test: [
            {
              expr: firing,
              eval_time: at,
              exp_samples: [{ labels: "{}", value: fires ? 1 : 0 }],
            },
          ],
        },
      ],
    }),
  );
  const { exitCode, all } = await execa(promtool, ["test", "rules", file], { reject: false, all: true });
  return exitCode === 0 ? "" : all;
}

test("every alert of the manifests has a case in this file", () => {
  const alerts = RULES.groups.flatMap(({ rules }: { rules: { alert: string }[] }) =>
    rules.map(({ alert }) => alert),
  );
  expect(CASES.map(({ alert }) => alert).sort()).toEqual(alerts.sort());
});

test("NftProxyMemoryNearLimit stays silent on a node without a memory limit", async () => {
  const memory = CASES.find(({ alert }) => alert === "NftProxyMemoryNearLimit") as Case;
  const unlimited = { nft_proxy_container_memory_working_set_bytes: "9000000000x30" };
  expect(await judge(memory, unlimited, false)).toBe("");
});

test.each([
  ["NftProxyServiceQuarantined", "nft_proxy_service_quarantined", 'namespace="shop", service="cart"'],
  ["NftProxyServiceConflict", "nft_proxy_service_contested", 'namespace="shop", service="cart"'],
  [
    "NftProxyEndpointsEjected",
    "nft_proxy_endpoint_ejected",
    'namespace="shop", service="cart", endpoint="10.1.0.1:80"',
  ],
])("%s fires once, however many nodes are affected", async (alert, metric, labels) => {
  const nodes = ["node-1", "node-2", "node-3"].map((node) => [
    `${metric}{job="nft-proxy", instance="${node}", ${labels}}`,
    "1x30",
  ]);
  const one = CASES.find((each) => each.alert === alert) as Case;
  expect(await judge(one, Object.fromEntries(nodes), true)).toBe("");
});

test.each(CASES)("$alert fires once for failing series and stays silent for healthy ones", async (one) => {
  expect(await judge(one, one.failing, true)).toBe("");
  expect(await judge(one, one.healthy, false)).toBe("");
});
