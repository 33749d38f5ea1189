import { counted } from "../../base/text.ts";
import { type HostDiagnostic, type Level, worstLevel } from "../../inspect/doctor/diagnostic.ts";
import { printable } from "./style.ts";

const MARKS: Readonly<Record<Level, string>> = { ok: "ok", warning: "WARNING", fault: "FAULT" };

/** For scripts: schemas/doctor.schema.json. */
export function diagnosticsJson(diagnostics: readonly HostDiagnostic[]): string {
  return `${JSON.stringify({ worst: worstLevel(diagnostics), findings: diagnostics }, null, 2)}\n`;
}

/** For people: a line for each diagnostic, its meaning and the action below it, and the counts. */
export function diagnosticsText(diagnostics: readonly HostDiagnostic[]): string {
  const lines = diagnostics.flatMap(({ level, check, found, means, action }) => [
    `${MARKS[level].padEnd(8)} ${check}: ${found}`,
    ...(means === undefined ? [] : [`         ${means}`]),
    ...(action === undefined ? [] : [`         -> ${action}`]),
  ]);
  const count = (level: Level) => diagnostics.filter((diagnostic) => diagnostic.level === level).length;
  return `${lines.map(printable).join("\n")}\n${counted(count("fault"), "fault")}, ${counted(count("warning"), "warning")}, ${count("ok")} ok\n`;
}
