import { AppError } from "../../base/errors.ts";
import type { Detail } from "../../inspect/explain/explain.ts";
import type { ExplainQuery } from "../../inspect/explain/query.ts";
import { hasFailures, type Report, reportJson, reportOf } from "../../inspect/explain/report.ts";
import { type LoadedExplainInput, loadExplainInput } from "../../inspect/load/load-explain-input.ts";
import { outputFormat } from "../argument-values.ts";
import { type Argv, isSet } from "../command.ts";
import { type CommandResult, EXIT, failed, jsonText } from "../command-result.ts";
import { hasErrors, loadedNotices, originText } from "../notices.ts";
import { loadRequest, optionsBesideDaemon } from "../options.ts";
import { type Progress, type Style, styleFor } from "../terminal.ts";
import { explainQueryOf } from "./explain-arguments.ts";
import { allReportText, explanationText, notServedText, portReportsText } from "./explanation-text.ts";

/**
 * `explain`: the outcome of a connection, rule by rule, and its cause. Changes nothing, and sends nothing.
 */
export async function run(argv: Argv, progress: Progress): Promise<CommandResult> {
  const format = outputFormat(argv, ["text", "json"]);
  const query = explainQueryOf(argv);
  const command = await optionsBesideDaemon(argv);
  progress.step("reading the objects");
  const loaded = await loadExplainInput(
    loadRequest(argv, command),
    isSet(argv, "live") ? "live" : "desired",
    query,
  );
  const notices = [...command.notices, ...loadedNotices(loaded), ...invalidNotices(loaded)];
  const report = answer(query, loaded, format === "json" ? "whole" : "brief");
  if (report instanceof AppError) return failed(report, notices);
  const head = statesText(loaded, isSet(argv, "live"), command.daemon !== undefined);
  return {
    exitCode: isSet(argv, "exit-code") && hasFailures(report) ? EXIT.found : EXIT.ok,
    output:
      format === "json"
        ? jsonText(reportJson(report))
        : head + reportText(report, styleFor(process.stdout, process.env)),
    notices,
  };
}

/** The answer, or the error to print below the notices, which may name the missing object. */
function answer(
  query: ExplainQuery,
  { input, diagnostics }: LoadedExplainInput,
  detail: Detail,
): Report | AppError {
  const { serviceCount, sliceCount } = input.cache;
  if (hasErrors(diagnostics) && serviceCount + sliceCount === 0) {
    return new AppError("UNREADABLE_INPUT", "there is no valid Service or EndpointSlice among the objects");
  }
  try {
    return reportOf(query, input, detail);
  } catch (error) {
    if (error instanceof AppError) return error;
    throw error;
  }
}

function invalidNotices({ diagnostics }: LoadedExplainInput): string[] {
  return hasErrors(diagnostics)
    ? ["warning: objects with errors are ignored, and this answer may be wrong about them"]
    : [];
}

/** Names the states that `--live` compares; otherwise the desired state, if it is a daemon's. */
function statesText({ origin, input }: LoadedExplainInput, isLive: boolean, isBesideDaemon: boolean): string {
  const desired = `desired (${originText(origin)})`;
  if (!isLive) return isBesideDaemon ? `${desired}\n\n` : "";
  const compared = input.objectsKnown
    ? `compared with ${desired}`
    : "compared with nothing: objects unavailable";
  return `rules in the kernel, ${compared}\n\n`;
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
