import { type HostDiagnostic, worstLevel } from "../../inspect/doctor/diagnostic.ts";
import { doctorHost } from "../../inspect/doctor/doctor-host.ts";
import { examineHost } from "../../inspect/doctor/examine.ts";
import { type Argv, isSet } from "../command.ts";
import { optionsBesideDaemon } from "../options.ts";
import { type CommandResult, EXIT } from "../output.ts";
import { diagnosticsJson, diagnosticsText } from "../print/doctor-text.ts";
import { outputFormat } from "../print/output-format.ts";

/** `doctor`: what this host lacks, and what breaks Services on it. Exit code 1 for a fault. */
export async function run(argv: Argv): Promise<CommandResult> {
  const format = outputFormat(argv, ["text", "json"]);
  const { options, notices } = await optionsBesideDaemon(argv);
  const diagnostics = await examineHost(doctorHost, options);
  return {
    exitCode: doctorExitCode(diagnostics, isSet(argv, "strict")),
    output: format === "json" ? diagnosticsJson(diagnostics) : diagnosticsText(diagnostics),
    notices,
  };
}

/** 1 when there is a fault; when `strict`, also when there is a warning. */
export function doctorExitCode(diagnostics: readonly HostDiagnostic[], strict: boolean): number {
  const worst = worstLevel(diagnostics);
  return worst === "fault" || (strict && worst === "warning") ? EXIT.refused : EXIT.ok;
}
