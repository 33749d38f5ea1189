import { type CheckReport, countOf, summaryLines } from "../../inspect/check/report.ts";
import type { Diagnostic } from "../../kube/files/diagnostic.ts";
import { diagnosticText } from "./diagnostic-text.ts";
import { githubCommand } from "./github-command.ts";

/** The output formats of `check`. */
export const REPORT_FORMATS: Readonly<Record<"text" | "json" | "github", (report: CheckReport) => string>> = {
  text: (report) => lines([...report.diagnostics.map(diagnosticText), ...summaryLines(report)]),
  json: jsonText,
  github: (report) => lines([...report.diagnostics.map(annotation), ...summaryLines(report)]),
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

function annotation({ severity, file, document, line, object, path, reason }: Diagnostic): string {
  const place = line === undefined && document > 1 ? ` (document ${document})` : "";
  return githubCommand(severity, `${path} ${reason}${place}`.trim(), {
    ...(file === "-" ? {} : { file }),
    ...(line === undefined ? {} : { line: String(line) }),
    ...(object === undefined ? {} : { title: object }),
  });
}
