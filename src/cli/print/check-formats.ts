import { type CheckReport, countOf, summaryLines } from "../../inspect/check/report.ts";
import type { Diagnostic } from "../../kube/files/diagnostic.ts";
import { diagnosticText } from "./diagnostic-text.ts";

/** The output formats of `check`. */
export const REPORT_FORMATS: Readonly<Record<"text" | "json" | "github", (report: CheckReport) => string>> = {
  text: (report) => lines([...report.diagnostics.map(diagnosticText), ...summaryLines(report)]),
  json: jsonText,
  github: (report) => lines([...report.diagnostics.map(githubCommand), ...summaryLines(report)]),
};

function lines(texts: readonly string[]): string {
  return `${texts.join("\n")}\n`;
}

/** As schemas/check-report.schema.json has it. */
function jsonText(report: CheckReport): string {
  const { diagnostics, kernel, counts, ignored, passed } = report;
  return `${JSON.stringify({
    verdict: passed ? "ok" : "refused",
    errors: countOf(report, "error"),
    warnings: countOf(report, "warning"),
    counts,
    ignored: [...ignored].sort().map(([reason, count]) => ({ reason, count })),
    kernel:
      kernel.kind === "refused"
        ? { ...kernel, culprits: kernel.culprits.map(({ family, name }) => ({ family, name })) }
        : kernel,
    diagnostics: diagnostics.map(({ severity, file, document, line, path, object, reason }) => {
      return { severity, file, document, line, path, object, reason };
    }),
  })}\n`;
}

/**
 * A workflow command that makes an annotation: `::error file=a.yaml,line=3,title=Service a/b::spec.ports ...`.
 * Source: GitHub's "Workflow commands"; how values are escaped: actions/toolkit, packages/core/src/command.ts.
 */
function githubCommand({ severity, file, document, line, object, path, reason }: Diagnostic): string {
  const properties = [
    ...(file === "-" ? [] : [`file=${escapedProperty(file)}`]),
    ...(line === undefined ? [] : [`line=${line}`]),
    ...(object === undefined ? [] : [`title=${escapedProperty(object)}`]),
  ].join(",");
  const place = line === undefined && document > 1 ? ` (document ${document})` : "";
  return `::${severity}${properties === "" ? "" : ` ${properties}`}::${escaped(`${path} ${reason}${place}`.trim())}`;
}

function escaped(text: string): string {
  return text.replaceAll("%", "%25").replaceAll("\r", "%0D").replaceAll("\n", "%0A");
}

function escapedProperty(text: string): string {
  return escaped(text).replaceAll(":", "%3A").replaceAll(",", "%2C");
}
