import { AppError, badArgument } from "../../base/errors.ts";
import { counted } from "../../base/text.ts";
import { examineHost } from "../../inspect/doctor/examine.ts";
import { type HostFinding, type Level, worstLevel } from "../../inspect/doctor/finding.ts";
import { doctorHost } from "../../inspect/doctor/host-facts.ts";
import type { MigrationFacts } from "../../inspect/doctor/migration-check.ts";
import { loadDesired } from "../../inspect/load/desired.ts";
import type { LoadRequest } from "../../inspect/load/load-request.ts";
import { outputFormat } from "../argument-values.ts";
import { type Argv, isSet, listArgument, type Reporter } from "../command.ts";
import { type CommandResult, EXIT, jsonText } from "../command-result.ts";
import { loadedNotices } from "../notices.ts";
import { requestBesideDaemon } from "../options.ts";
import { type Style, styleFor, wrapped } from "../terminal.ts";

/**
 * `doctor`: reports what this host lacks and what breaks Services on it; with `--migration` also what changes
 * for clients when nft-proxy replaces kube-proxy. Exit code 1 for a fault.
 */
export async function run(argv: Argv, reporter: Reporter): Promise<CommandResult> {
  const format = outputFormat(argv, ["text", "json"]);
  if (listArgument(argv, "from").length > 0 && !isSet(argv, "migration")) {
    throw badArgument("--from needs --migration");
  }
  const request = await requestBesideDaemon(argv, reporter, { isDiagnosis: true });
  const { options, areDefaults = false, socketProblem } = request;
  if (areDefaults) reporter.notice([unknownOptions(request)]);
  const migrating = isSet(argv, "migration") ? await migratingServices(request, reporter) : undefined;
  const findings = await examineHost(doctorHost, options, { areDefaults, socketProblem, migrating });
  return {
    exitCode: doctorExitCode(findings, isSet(argv, "strict")),
    output:
      format === "json"
        ? findingsJson(findings)
        : findingsText(findings, styleFor(process.stdout, process.env)),
  };
}

function unknownOptions({ deniedSocket }: LoadRequest): string {
  const reason = deniedSocket === undefined ? "" : `, because only root may query it at ${deniedSocket}`;
  return `note: the options of this node's daemon are unknown${reason}; pass their file with --config`;
}

/** Loads the cluster's Services, or the reason why the API server does not return them. */
async function migratingServices(
  request: LoadRequest,
  { notice }: Reporter,
): Promise<MigrationFacts["objects"]> {
  try {
    const { origin: _, ...desired } = await loadDesired(request);
    const { cache, nodeContext, state } = desired;
    const services = cache.serviceNames().flatMap((name) => cache.service(name) ?? []);
    notice(loadedNotices(desired));
    return { services, nodeContext, conflicts: state.conflicts() };
  } catch (error) {
    if (request.paths.length > 0 || !(error instanceof AppError)) throw error;
    return { problem: error.message };
  }
}

/** 1 if there is a fault or, with `strict`, a warning. */
export function doctorExitCode(findings: readonly HostFinding[], strict: boolean): number {
  const worst = worstLevel(findings);
  return worst === "fault" || (strict && worst === "warning") ? EXIT.found : EXIT.ok;
}

const MARKS: Readonly<Record<Level, string>> = { ok: "ok", warning: "WARNING", fault: "FAULT" };

/** For scripts: schemas/doctor.schema.json. */
export function findingsJson(findings: readonly HostFinding[]): string {
  return jsonText({ worst: worstLevel(findings), findings });
}

const BELOW = " ".repeat(9);

/** For people: a line for each finding, its meaning and the action below it, and the counts. */
export function findingsText(findings: readonly HostFinding[], style: Style): string {
  const lines = findings.flatMap(({ level, check, found, means, action }) => {
    const mark = level === "ok" ? style.good : style.bad;
    const text = wrapped(`${check}: ${found}`, `${MARKS[level].padEnd(8)} `, BELOW, style.columns);
    return [
      ...text.map((line) => line.replace(/^\S+/, mark)),
      ...(means === undefined ? [] : wrapped(means, BELOW, BELOW, style.columns)),
      ...(action === undefined ? [] : wrapped(action, `${BELOW}-> `, `${BELOW}   `, style.columns)),
    ];
  });
  const count = (level: Level) => findings.filter((finding) => finding.level === level).length;
  return `${lines.join("\n")}\n${counted(count("fault"), "fault")}, ${counted(count("warning"), "warning")}, ${count("ok")} ok\n`;
}
