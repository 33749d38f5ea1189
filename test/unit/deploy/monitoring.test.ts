import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { addConnectionMetrics } from "../../../src/daemon/metrics/connection-metrics.ts";
import { createMetrics } from "../../../src/daemon/metrics/metrics.ts";
import { addSourceMetrics } from "../../../src/daemon/metrics/source-metrics.ts";
import { DEPLOY } from "../../support/overlays.ts";

interface KnownMetric {
  readonly name: string;
  readonly type: string;
  readonly labels: readonly string[];
}

/** Every metric that the daemon has, by name. */
function knownMetrics(): Map<string, KnownMetric> {
  const { registry } = createMetrics("1", {
    cpu: () => ({ user: 0, system: 0 }),
    residentBytes: () => 0,
    startedAt: 0,
  });
  const source = { states: () => ({}) } as unknown as Parameters<typeof addSourceMetrics>[1];
  addSourceMetrics(registry, source);
  const reading = { read: async () => ({ frontends: [], endpoints: [] }), now: () => 0, maxAge: 1, onError: () => {} };
  addConnectionMetrics(registry, reading);
  const made = registry.getMetricsAsArray() as unknown as { name: string; type: string; labelNames: string[] }[];
  return new Map(made.map(({ name, type, labelNames }) => [name, { name, type, labels: labelNames }]));
}

const KNOWN = knownMetrics();
const OF_PROMETHEUS = ["instance", "job", "le"];

/** What is wrong with a query: a metric or a label that does not exist. */
function queryFaults(query: string): string[] {
  const names = [...query.matchAll(/\b(?:kubeproxy|nft_proxy|process)_\w+/g)].map(([name]) => name);
  const metrics = names.map((name) => [name, metricOf(name)] as const);
  const labels = new Set([...OF_PROMETHEUS, ...metrics.flatMap(([, metric]) => metric?.labels ?? [])]);
  const used = [
    ...[...query.matchAll(/(\w+)(?:=~|!~|!=|=)"/g)].map(([, label]) => label ?? ""),
    ...[...query.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, list]) => (list ?? "").split(/,\s*/)),
  ];
  return [
    ...(names.length === 0 ? [`${query} names no metric`] : []),
    ...metrics.flatMap(([name, metric]) => (metric === undefined ? [`there is no metric ${name}`] : [])),
    ...used.filter((label) => !labels.has(label)).map((label) => `${query} has no label ${label}`),
  ];
}

function metricOf(name: string): KnownMetric | undefined {
  const histogram = KNOWN.get(name.replace(/_(?:bucket|sum|count)$/, ""));
  return histogram?.type === "histogram" && histogram.name !== name ? histogram : KNOWN.get(name);
}

interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { readonly severity: string };
  readonly annotations: Readonly<Record<string, string>>;
}

interface Panel {
  readonly id: number;
  readonly title: string;
  readonly targets: readonly { readonly expr: string; readonly legendFormat: string }[];
}

describe("the alerts", () => {
  const { groups } = parse(readFileSync(join(DEPLOY, "monitoring/alerts.yaml"), "utf8"));
  const alerts: Alert[] = groups.flatMap(({ rules }: { rules: Alert[] }) => rules);

  test.each(alerts.map((alert) => [alert.alert, alert] as const))("%s is about metrics that exist", (_, alert) => {
    expect(queryFaults(alert.expr)).toEqual([]);
    expect(["warning", "critical"]).toContain(alert.labels.severity);
    expect(Object.keys(alert.annotations)).toEqual(["summary", "action"]);
  });

  test("have names of their own", () => {
    expect(new Set(alerts.map(({ alert }) => alert)).size).toBe(alerts.length);
  });
});

describe("the dashboard", () => {
  const dashboard = JSON.parse(readFileSync(join(DEPLOY, "monitoring/dashboard.json"), "utf8"));
  const panels: Panel[] = dashboard.panels;

  test.each(panels.map((panel) => [panel.title, panel] as const))("%s shows metrics that exist", (_, panel) => {
    expect(panel.targets.flatMap(({ expr }) => queryFaults(expr))).toEqual([]);
  });

  test("has panels with ids of their own", () => {
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  });
});

describe("the check itself", () => {
  test.each([
    ["rate(kubeproxy_no_such_total[5m])", "there is no metric kubeproxy_no_such_total"],
    ["nft_proxy_build_info_bucket", "there is no metric nft_proxy_build_info_bucket"],
    ['nft_proxy_build_info{verson="1"}', "has no label verson"],
    ["sum by (nod) (nft_proxy_build_info)", "has no label nod"],
    ["vector(1)", "names no metric"],
  ])("finds what is wrong with %s", (query, fault) => {
    expect(queryFaults(query).join()).toContain(fault);
  });

  test("finds nothing wrong with a histogram's series", () => {
    expect(queryFaults("sum by (le) (rate(nft_proxy_nft_duration_seconds_bucket[5m]))")).toEqual([]);
  });
});
