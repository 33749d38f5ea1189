import { counted } from "../base/text.ts";
import { deltaSize, type TableDelta } from "../nft/delta.ts";
import type { DriftSummary, SyncOutcome } from "./sync-report.ts";

/** Summarizes the drift that a sync repaired; undefined when there was none. */
export function driftSummary({ reason, drift, unreadable }: SyncOutcome): DriftSummary | undefined {
  if (unreadable !== undefined) {
    const text = `our tables could not be read and were rebuilt: ${unreadable}`;
    // At start this is no drift: the tables are those of another version, or of nobody yet.
    return reason === "start" ? undefined : { kind: "element", differences: 0, text };
  }
  if (drift.length === 0) return undefined;
  const { chains, sets, elements } = deltaSize(drift);
  return {
    kind: drift.some(({ mode }) => mode !== "change") ? "table" : "element",
    differences: chains + sets + elements,
    text: driftText(drift),
  };
}

/** Differences in words, table by table. */
export function driftText(drift: readonly TableDelta[]): string {
  return drift.map(tableText).join("; ");
}

function tableText(delta: TableDelta): string {
  const table = `table ${delta.family} ${delta.table}`;
  if (delta.mode === "create") return `${table} was missing`;
  if (delta.mode === "recreate") return `${table} had other declarations`;
  const { chains, sets, elements } = deltaSize([delta]);
  return `${table}: ${counted(chains, "chain")}, ${counted(sets, "set")}, ${counted(elements, "element")} differed`;
}
