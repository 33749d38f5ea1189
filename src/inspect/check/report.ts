import { counted } from "../../base/text.ts";
import type { Diagnostic } from "../../kube/files/diagnostic.ts";
import type { KernelVerdict } from "./kernel-verdict.ts";

/** What a check found, and of how much. */
export interface CheckReport {
  /** Sorted by place. */
  readonly problems: readonly Diagnostic[];
  readonly kernel: KernelVerdict;
  readonly counts: CheckCounts;
  /** By why they are not looked at; objects of other kinds are not among them. */
  readonly ignored: ReadonlyMap<string, number>;
  /** Nothing is wrong, or nothing but warnings where these are allowed. */
  readonly passed: boolean;
}

/** How many objects there were. */
export interface CheckCounts {
  readonly services: number;
  readonly endpointSlices: number;
  /** Services that have no cluster IP yet and were checked with a placeholder. */
  readonly withoutClusterIP: number;
  /** Objects of kinds that a service proxy does not read. */
  readonly otherKinds: number;
}

/** How many problems are of a severity. */
export function countOf({ problems }: CheckReport, severity: Diagnostic["severity"]): number {
  return problems.filter((problem) => problem.severity === severity).length;
}

/** What there is to say besides the problems, a line each; the last is the verdict. */
export function summaryLines(report: CheckReport): string[] {
  const { counts, ignored, passed } = report;
  const read = `${counted(counts.services, "Service")}, ${counted(counts.endpointSlices, "EndpointSlice")}`;
  const found = `${counted(countOf(report, "error"), "error")}, ${counted(countOf(report, "warning"), "warning")}`;
  return [
    ...(counts.withoutClusterIP === 0
      ? []
      : [
          `${counted(counts.withoutClusterIP, "Service")} without a cluster IP yet: checked with a placeholder address`,
        ]),
    ...[...ignored].sort().map(([reason, count]) => `${count} skipped: ${reason}`),
    ...(counts.otherKinds === 0 ? [] : [`${counts.otherKinds} skipped: of other kinds`]),
    kernelLine(report.kernel),
    `${passed ? "ok" : "refused"}: ${read}; ${found}`,
  ];
}

function kernelLine(kernel: KernelVerdict): string {
  switch (kernel.kind) {
    case "accepted":
      return `the kernel accepts the transaction (${kernel.nft})`;
    case "refused":
      return `the kernel refuses the transaction (${kernel.nft}): ${oneLine(kernel.reason)}`;
    case "not-asked":
      return `the kernel was not asked: ${oneLine(kernel.reason)}${kernel.hint === undefined ? "" : `; ${kernel.hint}`}`;
  }
}

function oneLine(text: string): string {
  return text.replaceAll(/\s*\n\s*/g, "; ");
}
