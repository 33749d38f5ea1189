import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { V1ConfigMap, V1DaemonSet, V1PodSpec } from "@kubernetes/client-node";
import { describe, expect, test } from "vitest";
import { Metrics } from "../../../src/daemon/metrics/metrics.ts";
import { manifestFaults } from "../../support/kubernetes-schema.ts";
import type { Manifest } from "../../support/kustomize.ts";
import { addFeatureMetrics, scrapedParts } from "../../support/metric-values.ts";
import { readAlerts, readPanels } from "../../support/monitoring.ts";
import { buildWithComponent, DEPLOY } from "../../support/overlays.ts";

const RUNBOOKS = join(DEPLOY, "../docs/runbooks");
const PACKAGE = JSON.parse(readFileSync(join(DEPLOY, "../package.json"), "utf8"));
const REPOSITORY = PACKAGE.repository.url.replace(/^git\+|\.git$/g, "");

interface PodMonitorSpec {
  readonly jobLabel: string;
  readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
  readonly podMetricsEndpoints: readonly { readonly port: string }[];
}

function podOf(daemonSet: unknown): V1PodSpec {
  return (daemonSet as V1DaemonSet).spec?.template.spec as V1PodSpec;
}

interface KnownMetric {
  readonly name: string;
  readonly type: string;
  readonly labels: readonly string[];
}

/** Every metric that the daemon has, by name. */
function knownMetrics(): Map<string, KnownMetric> {
  const metrics = new Metrics();
  addFeatureMetrics(metrics);
  metrics.readFrom(scrapedParts());
  const made = metrics.registry.getMetricsAsArray() as unknown as {
    name: string;
    type: string;
    labelNames: string[];
  }[];
  return new Map(made.map(({ name, type, labelNames }) => [name, { name, type, labels: labelNames }]));
}

const KNOWN = knownMetrics();
const OF_PROMETHEUS = ["cluster", "instance", "job", "le"];

/** What is wrong with a query: a metric or a label that does not exist. */
function queryFaults(query: string): string[] {
  const names = [...query.matchAll(/\b(?:kubeproxy|nft_proxy|process)_\w+/g)].map(([name]) => name);
  const isAboutTargets = /\bup\{job="nft-proxy"/.test(query);
  const metrics = names.map((name) => [name, metricOf(name)] as const);
  const labels = new Set([...OF_PROMETHEUS, ...metrics.flatMap(([, metric]) => metric?.labels ?? [])]);
  const used = [
    ...[...query.matchAll(/(\w+)(?:=~|!~|!=|=)"/g)].map(([, label]) => label ?? ""),
    ...[...query.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, list]) => (list ?? "").split(/,\s*/)),
  ];
  return [
    ...(names.length === 0 && !isAboutTargets ? [`${query} names no metric`] : []),
    ...metrics.flatMap(([name, metric]) => (metric === undefined ? [`there is no metric ${name}`] : [])),
    ...used.filter((label) => !labels.has(label)).map((label) => `${query} has no label ${label}`),
  ];
}

function metricOf(name: string): KnownMetric | undefined {
  const histogram = KNOWN.get(name.replace(/_(?:bucket|sum|count)$/, ""));
  return histogram?.type === "histogram" && histogram.name !== name ? histogram : KNOWN.get(name);
}

describe("the alerts", () => {
  const alerts = readAlerts();

  test.each(alerts.map((alert) => [alert.alert, alert] as const))(
    "%s queries metrics and labels that exist",
    (_, alert) => {
      expect(queryFaults(alert.expr)).toEqual([]);
      expect(["warning", "critical"]).toContain(alert.labels.severity);
      expect(Object.keys(alert.annotations)).toEqual(["summary", "description", "runbook_url"]);
    },
  );

  test.each(alerts.map((alert) => [alert.alert, alert] as const))(
    "%s has a runbook that names its severity",
    (name, alert) => {
      expect(alert.annotations.runbook_url).toBe(`${REPOSITORY}/blob/main/docs/runbooks/${name}.md`);
      const page = readFileSync(join(RUNBOOKS, `${name}.md`), "utf8");
      expect(page.startsWith(`# ${name}\n\nSeverity: ${alert.labels.severity}. `)).toBe(true);
      expect([...page.matchAll(/^## (.*)$/gm)].map(([, heading]) => heading)).toEqual(["Look at", "Do"]);
    },
  );

  test("have unique names, and each runbook has an alert", () => {
    const names = alerts.map(({ alert }) => alert);
    expect(names.map((name) => `${name}.md`).sort()).toEqual(readdirSync(RUNBOOKS).sort());
  });
});

describe("the dashboard", () => {
  const panels = readPanels();

  test.each(panels.map((panel) => [panel.title, panel] as const))(
    "%s queries metrics and labels that exist",
    (_, panel) => {
      expect(panel.targets.flatMap(({ expr }) => queryFaults(expr))).toEqual([]);
    },
  );

  test("selects a cluster and a node in every query but that of versions", () => {
    const queries = panels.filter(({ title }) => title !== "Versions").flatMap(({ targets }) => targets);
    for (const { expr } of queries) expect(expr).toContain('cluster=~"$cluster", instance=~"$instance"');
  });

  test("has panels with unique ids and titles", () => {
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    expect(new Set(panels.map(({ title }) => title)).size).toBe(panels.length);
  });
});

test("alerts and panels select the job nft-proxy for metrics that other programs also have", () => {
  const queries = [
    ...readAlerts().map(({ expr }) => expr),
    ...readPanels().flatMap(({ targets }) => targets.map(({ expr }) => expr)),
  ];
  const shared = queries.flatMap((query) => [...query.matchAll(/\b(?:kubeproxy|process)_\w+(\{[^}]*\})?/g)]);
  expect(shared.length).toBeGreaterThan(10);
  for (const [metric, selector] of shared)
    expect([metric, selector]).toEqual([metric, expect.stringContaining('job="nft-proxy"')]);
});

describe("the component monitoring", () => {
  const manifests = buildWithComponent("explicit-control-plane", "monitoring");
  const named = (kind: string, name: string) =>
    manifests.find((manifest) => manifest.kind === kind && manifest.metadata.name === name) as Manifest;

  test("adds a PodMonitor that selects the DaemonSet's pods and a port that they have", () => {
    const { spec } = named("PodMonitor", "nft-proxy") as unknown as { spec: PodMonitorSpec };
    const daemonSet = named("DaemonSet", "nft-proxy") as unknown as V1DaemonSet;
    expect(daemonSet.spec?.template.metadata?.labels).toMatchObject(spec.selector.matchLabels);
    expect(Object.keys(spec.selector.matchLabels)).toContain(spec.jobLabel);
    const ports = podOf(daemonSet).containers[0]?.ports ?? [];
    const [endpoint] = spec.podMetricsEndpoints;
    expect(ports.find(({ name }) => name === endpoint?.port)).toMatchObject({
      containerPort: 10249,
      hostPort: 10249,
    });
    // On loopback, Prometheus would get no answer.
    expect(podOf(daemonSet).containers[0]?.args).toContain("--metrics-bind-address=0.0.0.0:10249");
    expect(manifestFaults(named("DaemonSet", "nft-proxy"))).toEqual([]);
  });

  test("adds the dashboard as a ConfigMap with the label that Grafana's sidecar looks for", () => {
    const configMap = named("ConfigMap", "nft-proxy-dashboard") as unknown as V1ConfigMap;
    expect(configMap.metadata?.labels).toMatchObject({ grafana_dashboard: "1" });
    expect(JSON.parse(configMap.data?.["dashboard.json"] ?? "").panels).toEqual(readPanels());
  });

  test("adds the alerts as a PrometheusRule", () => {
    expect(named("PrometheusRule", "nft-proxy").apiVersion).toBe("monitoring.coreos.com/v1");
  });
});

describe("the check of queries", () => {
  test.each([
    ["rate(kubeproxy_no_such_total[5m])", "there is no metric kubeproxy_no_such_total"],
    ["nft_proxy_build_info_bucket", "there is no metric nft_proxy_build_info_bucket"],
    ['nft_proxy_build_info{verson="1"}', "has no label verson"],
    ["sum by (nod) (nft_proxy_build_info)", "has no label nod"],
    ["vector(1)", "names no metric"],
  ])("finds the fault in %s", (query, fault) => {
    expect(queryFaults(query).join()).toContain(fault);
  });

  test("finds no fault in a query of a histogram's series", () => {
    expect(queryFaults("sum by (le) (rate(nft_proxy_nft_duration_seconds_bucket[5m]))")).toEqual([]);
  });
});
