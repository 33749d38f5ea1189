import { doctorHost } from "../../daemon/doctor/doctor-host.ts";
import { examineHost } from "../../daemon/doctor/examine.ts";
import { type Finding, type Level, worstLevel } from "../../daemon/doctor/finding.ts";
import { type Argv, isSet } from "../command.ts";
import { commandOptions } from "../options.ts";
import { type CommandResult, EXIT } from "../output.ts";
import { outputFormat } from "../output-format.ts";

const MARKS: Readonly<Record<Level, string>> = { ok: "ok", warning: "WARNING", fault: "FAULT" };

/** `doctor`: what this host lacks, and what works against Services on it. Exit code 1 for a fault. */
export async function run(argv: Argv): Promise<CommandResult> {
  const format = outputFormat(argv, ["text", "json"]);
  const { options, notices } = commandOptions(argv);
  const findings = await examineHost(doctorHost, options);
  return {
    exitCode: doctorExitCode(findings, isSet(argv, "strict")),
    output: format === "json" ? findingsJson(findings) : findingsText(findings),
    notices,
  };
}

/** 1 when there is a fault; when `strict`, also when there is a warning. */
export function doctorExitCode(findings: readonly Finding[], strict: boolean): number {
  const worst = worstLevel(findings);
  return worst === "fault" || (strict && worst === "warning") ? EXIT.refused : EXIT.ok;
}

/** For scripts: schemas/doctor.schema.json. */
export function findingsJson(findings: readonly Finding[]): string {
  return `${JSON.stringify({ worst: worstLevel(findings), findings }, null, 2)}\n`;
}

/** For people: a line for each finding, what it means and what to do below it, and the sum. */
export function findingsText(findings: readonly Finding[]): string {
  const lines = findings.flatMap(({ level, check, found, means, action }) => [
    `${MARKS[level].padEnd(8)} ${check}: ${found}`,
    ...(means === undefined ? [] : [`         ${means}`]),
    ...(action === undefined ? [] : [`         -> ${action}`]),
  ]);
  const count = (level: Level) => findings.filter((finding) => finding.level === level).length;
  return `${lines.join("\n")}\nfaults: ${count("fault")}, warnings: ${count("warning")}, ok: ${count("ok")}\n`;
}
