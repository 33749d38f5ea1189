import { writeFileSync } from "node:fs";
import { cpus, loadavg, release } from "node:os";
import { fileURLToPath } from "node:url";
import { median, megabytes, paddedTable, time } from "../bench/figures.ts";
import { explanationOf, type Failure, type Harm } from "./attribution.ts";
import type { Clients } from "./clients.ts";
import { CONNECTION_KINDS, type ConnectionKind } from "./targets.ts";
import type { Vitals } from "./vitals.ts";

const RESULTS = fileURLToPath(new URL("RESULTS.md", import.meta.url));

/** How often a fault was injected, and how it went. */
export interface FaultTally {
  injected: number;
  /** How long each of its steps took to be repaired, milliseconds. */
  readonly repairs: number[];
  /**
   * For how long what it deleted was missing in the kernel, milliseconds; empty for faults that delete
   * nothing.
   */
  readonly absences: number[];
}

/** What a run found. */
export interface SoakResults {
  readonly minutes: number;
  readonly seed: number;
  readonly changes: number;
  readonly faults: ReadonlyMap<string, FaultTally>;
  readonly harms: readonly Harm[];
  readonly clients: Clients;
  readonly vitals: { readonly start: Vitals; readonly middle: Vitals; readonly end: Vitals };
  /** What must not be, in words; empty when all is well. */
  readonly problems: readonly string[];
  /** What should not be, but loses nothing. */
  readonly remarks: readonly string[];
}

/** The failures that no fault explains. */
export function unexplainedFailures(
  failures: readonly Failure[],
  harms: readonly Harm[],
): readonly Failure[] {
  return failures.filter((failure) => explanationOf(failure, harms) === undefined);
}

/** Failures for people, one line for those of one target, client and error. */
export function failureTexts(failures: readonly Failure[]): readonly string[] {
  const groups = new Map<string, Failure[]>();
  for (const failure of failures) {
    const { target, client, error } = failure;
    const name = `${target.name}, from ${client}: ${error}`;
    groups.set(name, [...(groups.get(name) ?? []), failure]);
  }
  return [...groups].map(([name, all]) => {
    const from = clockText(Math.min(...all.map((one) => one.from)));
    const until = clockText(Math.max(...all.map((one) => one.until)));
    return `${name}, ${all.length} between ${from} and ${until}`;
  });
}

function listText(lines: readonly string[]): string {
  return lines.map((line) => `- ${line}`).join("\n");
}

function clockText(at: number): string {
  return new Date(at).toISOString().slice(11, 23);
}

/** The results as Markdown tables. */
export function resultsText(results: SoakResults): string {
  const { minutes, seed, changes, problems, remarks } = results;
  const ran = `${minutes} minutes, seed ${seed}, ${changes.toLocaleString("en")} changes of objects`;
  const lists: readonly (readonly [string, readonly string[]])[] = [
    ["Not well:", problems],
    ["Slow:", [...new Set(remarks)]],
  ];
  const ends = lists.flatMap(([title, lines]) => (lines.length === 0 ? [] : [title, listText(lines)]));
  if (problems.length === 0)
    ends.unshift("No failure is unexplained, memory and descriptors are flat, the tables are right.");
  return [ran, faultTable(results), connectionTable(results), vitalTable(results), ...ends].join("\n\n");
}

/** Writes RESULTS.md. */
export async function saveResults(results: SoakResults, nft: string): Promise<void> {
  const machine = `${cpus().length} x ${cpus()[0]?.model ?? "unknown processor"}, load ${(loadavg()[1] ?? 0).toFixed(1)}`;
  const lines = [
    "# An hour of everything",
    "",
    "`npm run soak -- --save` writes this. One daemon under constant change, with faults one after the other and connections",
    "all the time. Time to repair: until the traces are gone, a Service made afterwards has its rules, and the daemon is healthy.",
    "Missing: from the commit that deleted rules to the one that brought them back, as the kernel told.",
    "",
    `- Date: ${new Date().toISOString().slice(0, 10)}`,
    `- Machine: ${machine} during the run`,
    `- Kernel ${release()}, ${nft.trim()}, Node ${process.version}`,
    "",
    resultsText(results),
    "",
  ];
  writeFileSync(RESULTS, lines.join("\n"));
}

function faultTable({ faults, harms, clients }: SoakResults): string {
  const blamed = clients.failures.flatMap((failure) => explanationOf(failure, harms)?.fault ?? []);
  const rows = [...faults].map(([name, { injected, repairs, absences }]) => [
    name,
    String(injected),
    time(median(repairs)),
    time(Math.max(...repairs)),
    absences.length === 0 ? "" : `${time(median(absences))}, at most ${time(Math.max(...absences))}`,
    String(blamed.filter((fault) => fault === name).length),
  ]);
  return paddedTable(
    ["fault", "injected", "repaired in, p50", "worst", "missing, p50", "connections failed by it"],
    rows,
  );
}

function connectionTable({ clients, harms }: SoakResults): string {
  const unexplained = unexplainedFailures(clients.failures, harms);
  const rows = (Object.keys(CONNECTION_KINDS) as ConnectionKind[]).map((kind) => {
    const failed = clients.failures.filter(({ target }) => target.kind === kind);
    const errors = [...new Set(failed.map(({ error }) => error))].sort();
    const counts = errors.map((error) => `${failed.filter((one) => one.error === error).length} ${error}`);
    return [
      CONNECTION_KINDS[kind],
      String(clients.made(kind)),
      String(failed.length),
      counts.join(", "),
      String(unexplained.filter(({ target }) => target.kind === kind).length),
    ];
  });
  return paddedTable(["connections", "made", "failed", "how", "unexplained"], rows);
}

function vitalTable({ vitals }: SoakResults): string {
  const all = [vitals.start, vitals.middle, vitals.end];
  const row = (name: string, value: (one: Vitals) => string) => [name, ...all.map(value)];
  return paddedTable(
    ["the daemon at rest", "start", "middle", "end"],
    [
      row("resident, garbage collected", ({ resident }) => megabytes(resident)),
      row("without the program's file, reserve and compiled code", ({ kept }) => megabytes(kept)),
      row("heap in use", ({ heap }) => `${(heap / 1e6).toFixed(1)} MB`),
      row("compiled code in it", ({ code }) => `${(code / 1e6).toFixed(1)} MB`),
      row("heap reserved", ({ reserved }) => megabytes(reserved)),
      row("buffers", ({ buffers }) => megabytes(buffers)),
      row("peak of this process", ({ peak }) => megabytes(peak)),
      row("file descriptors", ({ descriptors }) => String(descriptors)),
    ],
  );
}
