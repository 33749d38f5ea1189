import { AppError } from "../../base/errors.ts";
import { counted } from "../../base/text.ts";
import { type HostDiagnostic, type Level, worstLevel } from "../../inspect/doctor/diagnostic.ts";
import { examineHost } from "../../inspect/doctor/examine.ts";
import { doctorHost } from "../../inspect/doctor/host-facts.ts";
import type { MigrationFacts } from "../../inspect/doctor/migration-check.ts";
import { loadDesired } from "../../inspect/load/desired.ts";
import type { LoadRequest } from "../../inspect/load/load-request.ts";
import { outputFormat } from "../argument-values.ts";
import { type Argv, isSet, listArgument } from "../command.ts";
import { diagnosticText, missingNodeNotices } from "../notices.ts";
import { type CommandOptions, loadRequest, optionsDespiteDaemon } from "../options.ts";
import { type CommandResult, EXIT } from "../output.ts";
import { printable } from "../terminal.ts";

/**
 * `doctor`: what this host lacks, and what breaks Services on it; with `--migration` also what changes for clients when
 * nft-proxy takes over from kube-proxy. Exit code 1 for a fault.
 */
export async function run(argv: Argv): Promise<CommandResult> {
  const format = outputFormat(argv, ["text", "json"]);
  if (listArgument(argv, "from").length > 0 && !isSet(argv, "migration")) {
    throw new AppError("BAD_ARGUMENT", "--from needs --migration");
  }
  const command = await optionsDespiteDaemon(argv);
  const { objects, notices } = isSet(argv, "migration") ? await migratingServices(loadRequest(argv, command)) : NOTHING;
  const { options, areDefaults = false, socketProblem } = command;
  const diagnostics = await examineHost(doctorHost, options, { areDefaults, socketProblem, migrating: objects });
  return {
    exitCode: doctorExitCode(diagnostics, isSet(argv, "strict")),
    output: format === "json" ? diagnosticsJson(diagnostics) : diagnosticsText(diagnostics),
    notices: [...command.notices, ...(areDefaults ? [unknownOptions(command)] : []), ...notices],
  };
}

function unknownOptions({ deniedSocket }: CommandOptions): string {
  const reason = deniedSocket === undefined ? "" : `, as only root may ask it at ${deniedSocket}`;
  return `note: the options of this node's daemon are not known${reason}; --config names a file of them`;
}

const NOTHING = { objects: undefined, notices: [] };

/** The cluster's Services; the reason where the API server does not give them. */
async function migratingServices(
  request: LoadRequest,
): Promise<{ readonly objects: MigrationFacts["objects"]; readonly notices: readonly string[] }> {
  try {
    const { cache, nodeContext, state, missingNode, notices, diagnostics } = await loadDesired(request);
    const services = cache.serviceNames().flatMap((name) => cache.service(name) ?? []);
    return {
      objects: { services, nodeContext, conflicts: state.conflicts() },
      notices: [...notices, ...missingNodeNotices(missingNode), ...diagnostics.map(diagnosticText)],
    };
  } catch (error) {
    if (request.paths.length > 0 || !(error instanceof AppError)) throw error;
    return { objects: { problem: error.message }, notices: [] };
  }
}

/** 1 when there is a fault; when `strict`, also when there is a warning. */
export function doctorExitCode(diagnostics: readonly HostDiagnostic[], strict: boolean): number {
  const worst = worstLevel(diagnostics);
  return worst === "fault" || (strict && worst === "warning") ? EXIT.refused : EXIT.ok;
}

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
