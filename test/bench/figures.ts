import type { Memory } from "./memory.ts";
import type { Point } from "./plot.ts";

/** One row of the table. */
export interface Figure {
  readonly work: string;
  readonly value: string;
  /** The same work without this proxy: its figure, and what was measured. */
  readonly floor?: string;
  /** The value divided by the floor. */
  readonly ratio?: number;
  readonly budget?: Budget;
  readonly memory?: Memory;
  /** The points of this figure in the plot. */
  readonly points?: readonly Point[];
}

/** A limit of a figure. */
export interface Budget {
  readonly text: string;
  readonly holds: boolean;
}

/** A benchmark that can be run by name. */
export interface Work {
  readonly name: string;
  readonly summary: string;
  readonly run: () => Promise<readonly Figure[]>;
}

/** Returns a budget with an upper limit. Both values have the same unit. */
export function atMost(value: number, limit: number, text: string): Budget {
  return { text: `at most ${text}`, holds: value <= limit };
}

/** Formats milliseconds for readers. */
export function time(ms: number): string {
  if (ms >= 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms >= 1000) return `${(ms / 1000).toFixed(2)} s`;
  return ms >= 10 ? `${ms.toFixed(0)} ms` : `${ms.toFixed(1)} ms`;
}

/**
 * Formats a time and its CPU time, both in milliseconds. Other work on the machine does not increase CPU
 * time.
 */
export function timeWithCpu(ms: number, cpuMs: number): string {
  return `${time(ms)} (CPU ${time(cpuMs)})`;
}

/** Formats bytes for readers. */
export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(0)} MB`;
}

/** Returns the value below which this share (0 to 1) of all values lies. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}

/** Returns the median. */
export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

const COLUMNS = ["work", "figure", "without nft-proxy", "ratio", "budget", "node / nft / together, peak"];

/**
 * Returns the figures as a Markdown table.
 * @param earlier rows of an earlier table. Those of the same work are replaced
 */
export function tableText(figures: readonly Figure[], earlier: readonly (readonly string[])[] = []): string {
  const fresh = new Map(figures.map((figure) => [figure.work, rowOf(figure)]));
  const kept = earlier.map((row) => {
    const replaced = fresh.get(row[0] ?? "") ?? row;
    fresh.delete(row[0] ?? "");
    return replaced;
  });
  return paddedTable(COLUMNS, [...kept, ...fresh.values()]);
}

/** Returns the rows of a table of {@link tableText} within some text. */
export function tableRows(text: string): string[][] {
  const lines = text.split("\n").filter((line) => line.startsWith("| "));
  return lines.slice(2).map((line) =>
    line
      .slice(2, -2)
      .split(" | ")
      .map((cell) => cell.trim()),
  );
}

/** Returns a Markdown table with padded columns, so that its source is readable. */
export function paddedTable(columns: readonly string[], body: readonly (readonly string[])[]): string {
  const rows = [columns, ...body];
  const widths = columns.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]) =>
    `| ${row.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join(" | ")} |`;
  return [line(columns), line(widths.map((width) => "-".repeat(width))), ...body.map(line)].join("\n");
}

function rowOf({ work, value, floor = "", ratio, budget, memory }: Figure): string[] {
  return [
    work,
    value,
    floor,
    ratio === undefined ? "" : ratio.toFixed(2),
    budget === undefined ? "" : `${budget.text}: ${budget.holds ? "holds" : "**missed**"}`,
    memory === undefined ? "" : [memory.node, memory.nft, memory.together].map(megabytes).join(" / "),
  ];
}
