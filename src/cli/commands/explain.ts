import { type Report, reportJson, reportOf } from "../../inspect/explain/report.ts";
import type { Argv } from "../command.ts";
import { explainQueryOf } from "../explain-arguments.ts";
import { loadExplainInput } from "../load-explain-input.ts";
import { type CommandResult, EXIT } from "../output.ts";
import { explanationText, notServedText, portReportsText } from "../print/explanation-text.ts";
import { outputFormat } from "../print/output-format.ts";
import type { Progress } from "../print/progress.ts";
import { COLOURED, PLAIN, type Style } from "../print/style.ts";

/** `explain`: what becomes of a connection, rule by rule, and why. Changes nothing, and sends nothing. */
export async function run(argv: Argv, progress: Progress): Promise<CommandResult> {
  const format = outputFormat(argv, ["text", "json"]);
  const asked = explainQueryOf(argv);
  progress.step("reading the objects");
  const { input, notices } = await loadExplainInput(argv, asked);
  const report = reportOf(asked, input);
  const output = format === "json" ? `${JSON.stringify(reportJson(report), null, 2)}\n` : reportText(report, style());
  return { exitCode: EXIT.ok, output, notices };
}

function reportText(report: Report, style: Style): string {
  switch (report.kind) {
    case "connection":
      return explanationText(report.explanation, style);
    case "service":
      return portReportsText(report.ports, style);
    case "not-served":
      return notServedText(report.reason, style);
  }
}

/** https://no-color.org */
function style(): Style {
  return process.stdout.isTTY && !process.env.NO_COLOR ? COLOURED : PLAIN;
}
