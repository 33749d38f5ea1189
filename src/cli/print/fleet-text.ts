import { ageText } from "../../base/duration.ts";
import { counted } from "../../base/text.ts";
import type { FleetMetrics, FleetNode } from "../../inspect/fleet/node-status.ts";
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
  return `${[...lines, sumText(nodes)].join("\n")}\n`;
}

/** A node with several pods has several lines, and is healthy when all of them are. */
function sumText(nodes: readonly FleetNode[]): string {
  const all = new Set(nodes.map(({ node }) => node));
  const sick = new Set(nodes.filter(({ state }) => state !== "healthy").map(({ node }) => node));
  return `${counted(all.size, "node")}, ${all.size - sick.size} healthy`;
}

function cells({ node, state, reason, verifiedAgo, outOfSyncFor, quarantined, metrics }: FleetNode): string[] {
  const number = (value: number | undefined) => (value === undefined ? "-" : String(value));
  return [
    printable(node),
    state,
    metrics?.version ?? "-",
    verifiedAgo === undefined ? "-" : `${ageText(verifiedAgo)} ago`,
    outOfSyncFor === undefined ? "-" : outOfSyncFor === 0 ? "no" : ageText(outOfSyncFor),
    number(metrics?.driftRepairs),
    number(quarantined),
    number(metrics?.refused),
    lagText(metrics),
    printable(reason ?? ""),
  ];
}

function lagText({ lagP99, lagP99Above }: Partial<FleetMetrics> = {}): string {
  if (lagP99 !== undefined) return `${lagP99} s`;
  return lagP99Above === undefined ? "-" : `>${lagP99Above} s`;
}
