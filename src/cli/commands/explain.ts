import type { Argv } from "../command.ts";
import { askedOf } from "../explain/arguments.ts";
import { loadSituation } from "../explain/load.ts";
import { type Report, reportJson, reportOf } from "../explain/report.ts";
import { COLOURED, PLAIN, type Style } from "../explain/style.ts";
import { explanationText, notServedText, portReportsText } from "../explain/text.ts";
import { type CommandResult, EXIT } from "../output.ts";
import { outputFormat } from "../output-format.ts";
import type { Progress } from "../progress.ts";

/** `explain`: what becomes of a connection, rule by rule, and why. Changes nothing, and sends nothing. */
export async function run(argv: Argv, progress: Progress): Promise<CommandResult> {
  const format = outputFormat(argv, ["text", "json"]);
  const asked = askedOf(argv);
  progress.step("reading the objects");
  const { situation, notices } = await loadSituation(argv, asked);
  const report = reportOf(asked, situation);
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
