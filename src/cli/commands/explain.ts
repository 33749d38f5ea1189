import { AppError } from "../../base/errors.ts";
import { hasFailures, type Report, reportJson, reportOf } from "../../inspect/explain/report.ts";
import { type LoadedExplainInput, loadExplainInput } from "../../inspect/load/load-explain-input.ts";
import { emptyNamespaceNotices, outputFormat } from "../argument-values.ts";
import { type Argv, isSet, type Reporter } from "../command.ts";
import { type CommandResult, EXIT, jsonText } from "../command-result.ts";
import { hasErrors, loadedNotices, originText } from "../notices.ts";
import { requestBesideDaemon } from "../options.ts";
import { type Style, styleFor } from "../terminal.ts";
import { explainQueryOf } from "./explain-arguments.ts";
import { allReportText, explanationText, notServedText, portReportsText } from "./explanation-text.ts";

/**
 * `explain`: the outcome of a connection, rule by rule, and its cause. Changes nothing, and sends nothing.
 */
export async function run(argv: Argv, reporter: Reporter): Promise<CommandResult> {
  const format = outputFormat(argv, ["text", "json"]);
  const query = explainQueryOf(argv);
  const request = await requestBesideDaemon(argv, reporter);
  reporter.step("reading the objects");
  const loaded = await loadExplainInput(request, isSet(argv, "live") ? "live" : "desired", query);
  const areInvalid = hasErrors(loaded.diagnostics);
  const namespace = query.kind === "all" ? query.namespace : undefined;
  const { serviceCount, sliceCount } = loaded.input.cache;
  reporter.notice([
    ...loadedNotices(loaded),
    ...(areInvalid ? [INVALID] : []),
    ...emptyNamespaceNotices(namespace, loaded.input.cache.serviceNames()),
  ]);
  if (areInvalid && serviceCount + sliceCount === 0)
    throw new AppError("UNREADABLE_INPUT", "there is no valid Service or EndpointSlice among the objects");
  const report = reportOf(query, loaded.input, format === "json" ? "whole" : "brief");
  const head = statesText(loaded, isSet(argv, "live"), request.daemon !== undefined);
  return {
    exitCode: isSet(argv, "exit-code") && hasFailures(report) ? EXIT.found : EXIT.ok,
    output:
      format === "json"
        ? jsonText(reportJson(report))
        : head + reportText(report, styleFor(process.stdout, process.env)),
  };
}

const INVALID = "warning: objects with errors are ignored, and this answer may be wrong about them";

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
