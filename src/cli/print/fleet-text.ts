import { counted } from "../../base/text.ts";
import type { FleetNode } from "../../inspect/fleet/fleet-report.ts";
import { ageText } from "./age-text.ts";
import { printable } from "./style.ts";

const HEAD = [
  "NODE",
  "STATE",
  "VERSION",
  "VERIFIED",
  "OUT-OF-SYNC",
  "DRIFT",
  "QUARANTINED",
  "REFUSED",
  "LAG-P99",
  "REASON",
];

/** A line for each node, `-` for what it does not tell, and the sum. Ends with a line feed. */
export function fleetText(nodes: readonly FleetNode[]): string {
  const rows = [HEAD, ...nodes.map(cells)];
  const widths = HEAD.map((_head, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const lines = rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd(),
  );
  const healthy = nodes.filter(({ state }) => state === "healthy").length;
  return `${[...lines, `${counted(nodes.length, "node")}, ${healthy} healthy`].join("\n")}\n`;
}

function cells({ node, state, reason, verifiedAgo, metrics }: FleetNode): string[] {
  const number = (value: number | undefined) => (value === undefined ? "-" : String(value));
  return [
    printable(node),
    state,
    metrics?.version ?? "-",
    verifiedAgo === undefined ? "-" : `${ageText(verifiedAgo)} ago`,
    metrics === undefined ? "-" : metrics.outOfSyncFor === 0 ? "no" : ageText(metrics.outOfSyncFor),
    number(metrics?.driftRepairs),
    number(metrics?.quarantined),
    number(metrics?.refused),
    metrics?.lagP99 === undefined ? "-" : `${metrics.lagP99} s`,
    printable(reason ?? ""),
  ];
}
