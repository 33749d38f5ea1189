import { addToCount, groupBy } from "../../base/group-by.ts";
import { joinPath } from "../../base/schema-error.ts";
import { apiServerErrors } from "../../inspect/check/api-server-errors.ts";
import { type CheckReport, countOf, summaryLines } from "../../inspect/check/check-report.ts";
import { exclusions } from "../../inspect/check/exclusions.ts";
import { askKernel, type KernelVerdict } from "../../inspect/check/kernel-verdict.ts";
import { checkWarnings } from "../../inspect/check/warnings.ts";
import { type DesiredFromFiles, loadFromFiles } from "../../inspect/load/desired.ts";
import { bounded, type FieldDiagnostic, fieldError, fieldWarning } from "../../kube/decode/decode.ts";
import { compareDiagnostics, type Diagnostic } from "../../kube/files/diagnostic.ts";
import { type FilesResult, locate, servicesByName } from "../../kube/files/object-gatherer.ts";
import type { ServicePortKey } from "../../model/ids.ts";
import { rebuildTransaction } from "../../nft/transaction.ts";
import { validateTransaction } from "../../nft/transaction-text.ts";
import { quarantinedServices } from "../../sync/quarantine-changes.ts";
import { outputFormat } from "../argument-values.ts";
import { type Argv, isSet, listArgument, type Reporter } from "../command.ts";
import { type CommandResult, EXIT, jsonText } from "../command-result.ts";
import { diagnosticText, githubCommand, hasErrors, messageText } from "../notices.ts";
import { commandOptions, loadRequest } from "../options.ts";

/**
 * `check`: reports everything that is wrong with objects, for CI. Asks the kernel if possible, and changes
 * nothing.
 */
export async function run(argv: Argv, reporter: Reporter): Promise<CommandResult> {
  const print = REPORT_FORMATS[outputFormat(argv, ["text", "json", "github"])];
  reporter.step("reading the objects");
  const options = commandOptions(argv, reporter);
  const request = loadRequest(argv, options);
  const desired = await loadFromFiles(request, { thorough: true, placeholders: true });
  reporter.step(`checking ${desired.cache.serviceCount} Services`);
  const items = listArgument(argv, "exclude").flatMap((text) => text.split(","));
  const isExcluded = exclusions(items, desired.files);
  const { state, nodeContext, files, cache } = desired;
  validateTransaction(rebuildTransaction(state.ruleset));
  reporter.step("asking the kernel");
  const kernel = await askKernel(options.nftPath, state, nodeContext);
  // What the API server would reject.
  const strict = apiServerErrors(files);
  const found = [
    ...desired.diagnostics,
    ...noObjects(request.paths, files),
    ...excesses(desired),
    ...checkWarnings(desired),
    ...(isSet(argv, "no-strict")
      ? strict.map((error) => ({ ...error, severity: "warning" as const }))
      : strict),
    ...kernelDiagnostics(kernel, desired),
  ];
  const reported = found.filter((diagnostic) => !isExcluded(diagnostic));
  const diagnostics = boundedByObject(reported).sort(compareDiagnostics);
  const ignored = new Map<string, number>();
  for (const { reason } of files.ignored) addToCount(ignored, reason, 1);
  const passed =
    !hasErrors(diagnostics) &&
    kernel.kind !== "refused" &&
    !(isSet(argv, "strict") && diagnostics.length > 0);
  return {
    exitCode: passed ? EXIT.ok : EXIT.found,
    output: print({
      kernel,
      ignored,
      diagnostics,
      passed,
      excluded: found.length - reported.length,
      counts: {
        services: cache.serviceCount,
        endpointSlices: cache.sliceCount,
        withoutClusterIP: files.placeholders,
        otherKinds: files.otherKinds,
      },
    }),
  };
}

/** Returns the first diagnostics of each object, and the number of further ones. */
function boundedByObject(diagnostics: readonly Diagnostic[]): Diagnostic[] {
  const byObject = groupBy(diagnostics, ({ file, document, object }) =>
    JSON.stringify([file, document, object]),
  );
  return [...byObject.values()].flatMap((ofOne) => {
    const [first] = ofOne;
    if (first?.object === undefined) return ofOne;
    const { file, document, object } = first;
    return bounded(ofOne, (reason, severity) => {
      return { code: "more-diagnostics", file, document, path: "", object, reason, severity };
    });
  });
}

/**
 * Returns an error if no object was checked. Otherwise a pipeline would pass whose path is wrong, or whose
 * `helm template` printed nothing.
 */
function noObjects(
  [file = ""]: readonly string[],
  { objects, ignored, invalid, diagnostics }: FilesResult,
): Diagnostic[] {
  const lists = [...Object.values(objects), ignored, invalid];
  if (lists.some(({ length }) => length > 0) || hasErrors(diagnostics)) return [];
  const reason = "no Service, EndpointSlice, Node or ServiceCIDR was found: nothing was checked";
  return [{ file, document: 1, ...fieldError("no-objects", "", reason) }];
}

/**
 * Returns a diagnostic for each Service that exceeds a limit, or is served without a feature, and each
 * reason.
 */
function excesses({ files, excess, state }: DesiredFromFiles): Diagnostic[] {
  const subjects = servicesByName(files.objects);
  const found = (
    reasons: ReadonlyMap<ServicePortKey, string>,
    diagnosticOf: (reason: string) => FieldDiagnostic,
  ) =>
    quarantinedServices(reasons).flatMap(({ service, reason }) => {
      const subject = subjects.get(service);
      return subject === undefined ? [] : [locate(subject, diagnosticOf(reason))];
    });
  return [
    ...found(excess, (reason) => fieldError("over-limit", "spec", `would be quarantined: ${reason}`)),
    ...state.budgets.features.flatMap(({ name, text, annotation = "", path }) =>
      found(state.budgets.without(name), (reason) => {
        const field = path ?? joinPath("metadata.annotations", annotation);
        return fieldWarning("without-feature", field, `would be served without ${text}: ${reason}`);
      }),
    ),
  ];
}

/** Returns an error for each service port that the kernel refuses. */
function kernelDiagnostics(kernel: KernelVerdict, { files }: DesiredFromFiles): Diagnostic[] {
  if (kernel.kind !== "refused") return [];
  const subjects = servicesByName(files.objects);
  return kernel.culprits.flatMap(({ service, name }) => {
    const subject = subjects.get(service.name);
    const reason = `the kernel refuses the rules of ${name}`;
    return subject === undefined ? [] : [locate(subject, fieldError("kernel-refuses", "spec", reason))];
  });
}

const REPORT_FORMATS: Readonly<Record<"text" | "json" | "github", (report: CheckReport) => string>> = {
  text: (report) => lines([...report.diagnostics.map(diagnosticText), ...summaryLines(report)]),
  json: reportJson,
  github: (report) => lines([...report.diagnostics.map(annotation), ...summaryLines(report)]),
};

function lines(texts: readonly string[]): string {
  return `${texts.join("\n")}\n`;
}

/** Follows schemas/check-report.schema.json. */
function reportJson(report: CheckReport): string {
  const { diagnostics, excluded, kernel, counts, ignored, passed } = report;
  return jsonText({
    verdict: passed ? "ok" : "refused",
    errors: countOf(report, "error"),
    warnings: countOf(report, "warning"),
    excluded,
    counts,
    ignored: [...ignored].sort().map(([reason, count]) => ({ reason, count })),
    kernel:
      kernel.kind === "refused"
        ? { ...kernel, culprits: kernel.culprits.map(({ family, name }) => ({ family, name })) }
        : kernel,
    diagnostics: diagnostics.map(({ code, severity, file, document, line, path, object, reason }) => {
      return { code, severity, file, document, line, path, object, reason };
    }),
  });
}

function annotation(diagnostic: Diagnostic): string {
  const { severity, file, document, line, object } = diagnostic;
  const place = line === undefined && document > 1 ? ` (document ${document})` : "";
  return githubCommand(severity, `${messageText(diagnostic)}${place}`, {
    file: file === "-" ? undefined : file,
    line,
    title: object,
  });
}
