import { hasFailures, type Report, reportJson, reportOf } from "../../inspect/explain/report.ts";
import { loadExplainInput } from "../../inspect/load/load-explain-input.ts";
import { type Argv, isSet } from "../command.ts";
import { explainQueryOf } from "../explain-arguments.ts";
import { commandOptions, loadRequest } from "../options.ts";
import { type CommandResult, EXIT } from "../output.ts";
import { diagnosticText, missingNodeNotices } from "../print/diagnostic-text.ts";
import { allReportText, explanationText, notServedText, portReportsText } from "../print/explanation-text.ts";
import { outputFormat } from "../print/output-format.ts";
import type { Progress } from "../print/progress.ts";
import { COLOURED, PLAIN, type Style } from "../print/style.ts";

/** `explain`: the outcome of a connection, rule by rule, and its cause. Changes nothing, and sends nothing. */
export async function run(argv: Argv, progress: Progress): Promise<CommandResult> {
  const format = outputFormat(argv, ["text", "json"]);
  const query = explainQueryOf(argv);
  const { options, notices } = commandOptions(argv);
  progress.step("reading the objects");
  const loaded = await loadExplainInput(loadRequest(argv, options), query, isSet(argv, "live"));
  const report = reportOf(query, loaded.input);
  const output = format === "json" ? `${JSON.stringify(reportJson(report), null, 2)}\n` : reportText(report, style());
  return {
    exitCode: isSet(argv, "exit-code") && hasFailures(report) ? EXIT.refused : EXIT.ok,
    output,
    notices: [
      ...notices,
      ...missingNodeNotices(loaded.missingNode),
      ...loaded.notices,
      ...loaded.diagnostics.map(diagnosticText),
    ],
  };
}

function reportText(report: Report, style: Style): string {
  switch (report.kind) {
    case "connection":
      return explanationText(report.explanation, style);
    case "service":
      return portReportsText(report.ports, style);
    case "all":
      return allReportText(report, style);
    case "not-served":
      return notServedText(report.reason, style);
  }
}

/** https://no-color.org */
function style(): Style {
  return process.stdout.isTTY && !process.env.NO_COLOR ? COLOURED : PLAIN;
}
