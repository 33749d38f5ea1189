import { type HostDiagnostic, type Level, worstLevel } from "../../inspect/doctor/diagnostic.ts";
import { doctorHost } from "../../inspect/doctor/doctor-host.ts";
import { examineHost } from "../../inspect/doctor/examine.ts";
import { type Argv, isSet } from "../command.ts";
import { commandOptions } from "../options.ts";
import { type CommandResult, EXIT } from "../output.ts";
import { outputFormat } from "../print/output-format.ts";

const MARKS: Readonly<Record<Level, string>> = { ok: "ok", warning: "WARNING", fault: "FAULT" };

/** `doctor`: what this host lacks, and what works against Services on it. Exit code 1 for a fault. */
export async function run(argv: Argv): Promise<CommandResult> {
  const format = outputFormat(argv, ["text", "json"]);
  const { options, notices } = commandOptions(argv);
  const findings = await examineHost(doctorHost, options);
  return {
    exitCode: doctorExitCode(findings, isSet(argv, "strict")),
    output: format === "json" ? diagnosticsJson(findings) : diagnosticsText(findings),
    notices,
  };
}

/** 1 when there is a fault; when `strict`, also when there is a warning. */
export function doctorExitCode(findings: readonly HostDiagnostic[], strict: boolean): number {
  const worst = worstLevel(findings);
  return worst === "fault" || (strict && worst === "warning") ? EXIT.refused : EXIT.ok;
}

/** For scripts: schemas/doctor.schema.json. */
export function diagnosticsJson(findings: readonly HostDiagnostic[]): string {
  return `${JSON.stringify({ worst: worstLevel(findings), findings }, null, 2)}\n`;
}

/** For people: a line for each finding, what it means and what to do below it, and the sum. */
export function diagnosticsText(findings: readonly HostDiagnostic[]): string {
  const lines = findings.flatMap(({ level, check, found, means, action }) => [
    `${MARKS[level].padEnd(8)} ${check}: ${found}`,
    ...(means === undefined ? [] : [`         ${means}`]),
    ...(action === undefined ? [] : [`         -> ${action}`]),
  ]);
  const count = (level: Level) => findings.filter((finding) => finding.level === level).length;
  return `${lines.join("\n")}\nfaults: ${count("fault")}, warnings: ${count("warning")}, ok: ${count("ok")}\n`;
}
