import { counted } from "../../base/text.ts";
import type { Diagnostic } from "../../kube/files/diagnostic.ts";
import type { KernelVerdict } from "./kernel-verdict.ts";

/** The result of a check. */
export interface CheckReport {
  /** Sorted by file, document and line. */
  readonly diagnostics: readonly Diagnostic[];
  /** The number of diagnostics that `--exclude` and annotations exclude. */
  readonly excluded: number;
  readonly kernel: KernelVerdict;
  readonly counts: {
    readonly services: number;
    readonly endpointSlices: number;
    /** Services that have no cluster IP yet and were checked with a placeholder. */
    readonly withoutClusterIP: number;
    /** Objects of kinds that a service proxy does not read. */
    readonly otherKinds: number;
  };
  /** The number of ignored objects by reason, without objects of other kinds. */
  readonly ignored: ReadonlyMap<string, number>;
  /** True if there are no errors, and with `--strict` no warnings. */
  readonly passed: boolean;
}

/** Counts the diagnostics of a severity. */
export function countOf({ diagnostics }: CheckReport, severity: Diagnostic["severity"]): number {
  return diagnostics.filter((diagnostic) => diagnostic.severity === severity).length;
}

/** Returns the lines of the summary, the last of which is the verdict. */
export function summaryLines(report: CheckReport): string[] {
  const { counts, ignored, passed, excluded, kernel } = report;
  const read = `${counted(counts.services, "Service")} and ${counted(counts.endpointSlices, "EndpointSlice")}`;
  const found = `${counted(countOf(report, "error"), "error")}, ${counted(countOf(report, "warning"), "warning")}`;
  const strict = passed || countOf(report, "error") > 0 ? "" : "; --strict refuses warnings";
  const unasked = kernel.kind === "not-asked" ? "; the kernel was not asked" : "";
  const some = (count: number, noun: string, what: string) =>
    count === 0 ? [] : [`${counted(count, noun)} ${what}`];
  return [
    ...some(
      counts.withoutClusterIP,
      "Service",
      "without a cluster IP yet: checked with a placeholder address",
    ),
    ...[...ignored].sort().flatMap(([reason, count]) => some(count, "object", `ignored: ${reason}`)),
    ...some(counts.otherKinds, "object", "ignored: of kinds that a service proxy does not read"),
    ...some(excluded, "diagnostic", "excluded"),
    kernelLine(report),
    `${passed ? "ok" : "refused"}: ${read}; ${found}${strict}${unasked}`,
  ];
}

/** The kernel only checks objects that can be read. The verdict has the errors of the others. */
function kernelLine({ kernel, counts }: CheckReport): string {
  switch (kernel.kind) {
    case "accepted":
      return `kernel: accepts the rules of ${counted(counts.services, "readable Service")} (${kernel.nft})`;
    case "refused":
      return `kernel: refuses the rules (${kernel.nft}): ${oneLine(kernel.reason)}`;
    case "not-asked":
      return `kernel: not asked: ${oneLine(kernel.reason)}${kernel.hint === undefined ? "" : `; ${kernel.hint}`}`;
  }
}

function oneLine(text: string): string {
  return text.replaceAll(/\s*\n\s*/g, "; ");
}
