import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { DEPLOY } from "./overlays.ts";

/** An alert of a PrometheusRule. */
export interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { readonly severity: string };
  readonly annotations: Readonly<Record<string, string>>;
}

/** A panel of a dashboard, with the fields that the tests read. */
export interface Panel {
  readonly id: number;
  readonly title: string;
  readonly targets: readonly { readonly expr: string; readonly legendFormat: string }[];
}

/** The alerts that deploy/monitoring installs. */
export function readAlerts(): Alert[] {
  const { spec } = parse(readFileSync(join(DEPLOY, "monitoring/prometheus-rule.yaml"), "utf8"));
  return spec.groups.flatMap(({ rules }: { rules: Alert[] }) => rules);
}

/** The panels of the dashboard that deploy/monitoring installs. */
export function readPanels(): Panel[] {
  return JSON.parse(readFileSync(join(DEPLOY, "monitoring/dashboard.json"), "utf8")).panels;
}
