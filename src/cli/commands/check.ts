import { groupBy } from "../../base/group-by.ts";
import { joinPath } from "../../base/schema-error.ts";
import { type CheckReport, countOf, summaryLines } from "../../inspect/check/check-report.ts";
import { askKernel, type KernelVerdict } from "../../inspect/check/kernel-verdict.ts";
import { strictErrors } from "../../inspect/check/strict-errors.ts";
import { compareDiagnostics, errorAt, type Subject, warningAt } from "../../inspect/check/subject.ts";
import { checkWarnings, serviceSubjects } from "../../inspect/check/warnings.ts";
import { type DesiredFromFiles, loadFromFiles } from "../../inspect/load/desired.ts";
import { bounded } from "../../kube/decode/decode.ts";
import type { Diagnostic } from "../../kube/files/diagnostic.ts";
import type { ServicePortKey } from "../../model/ids.ts";
import { PORT_RANGES_ANNOTATION } from "../../model/service.ts";
import { rebuildTransaction } from "../../nft/transaction.ts";
import { validateTransaction } from "../../nft/validate.ts";
import { FEATURE_NAMES, FEATURES, type Feature } from "../../ruleset/feature-budget.ts";
import { quarantinedServices } from "../../sync/quarantine-changes.ts";
import { outputFormat } from "../argument-values.ts";
import { type Argv, isSet } from "../command.ts";
import { diagnosticText, githubCommand, hasErrors } from "../notices.ts";
import { commandOptions, loadRequest } from "../options.ts";
import { type CommandResult, EXIT } from "../output.ts";
import type { Progress } from "../terminal.ts";

/** `check`: everything that is wrong with some objects, for CI. Changes nothing, and asks the kernel if it can. */
export async function run(argv: Argv, progress: Progress): Promise<CommandResult> {
  const print = REPORT_FORMATS[outputFormat(argv, ["text", "json", "github"])];
  progress.step("reading the objects");
  const { options, notices } = commandOptions(argv);
  const desired = await loadFromFiles(loadRequest(argv, { options }), { thorough: true, placeholders: true });
  progress.step(`looking at ${desired.cache.serviceCount} Services`);
  const found = [
    ...desired.diagnostics,
    ...excesses(desired),
    ...checkWarnings(desired),
    ...strictDiagnostics(argv, desired),
  ];
  const { state, nodeContext } = desired;
  validateTransaction(rebuildTransaction(state.ruleset));
  progress.step("asking the kernel");
  const kernel = await askKernel(options.nftPath, state, nodeContext);
  const diagnostics = boundedByObject([...found, ...kernelDiagnostics(kernel, desired)]).sort(
    compareDiagnostics,
  );
  const passed =
    !hasErrors(diagnostics) &&
    kernel.kind !== "refused" &&
    !(isSet(argv, "strict") && diagnostics.length > 0);
  return {
    exitCode: passed ? EXIT.ok : EXIT.failure,
    output: print(reportOf(desired, diagnostics, kernel, passed)),
    notices,
  };
}

/** The first diagnostics of each object, and how many more it has. */
function boundedByObject(diagnostics: readonly Diagnostic[]): Diagnostic[] {
  const byObject = groupBy(diagnostics, ({ file, document, object }) =>
    JSON.stringify([file, document, object]),
  );
  return [...byObject.values()].flatMap((ofOne) =>
    ofOne[0]?.object === undefined ? ofOne : bounded(ofOne, moreOf(ofOne[0])),
  );
}

function moreOf({ file, document, object = "" }: Diagnostic) {
  return (reason: string, severity: Diagnostic["severity"]): Diagnostic => {
    return { file, document, path: "", object, reason, severity };
  };
}

/** What the API server would reject: errors, or warnings with `--no-strict`. */
function strictDiagnostics(argv: Argv, { files }: DesiredFromFiles): Diagnostic[] {
  const errors = strictErrors(files);
  return isSet(argv, "no-strict")
    ? errors.map((error) => ({ ...error, severity: "warning" as const }))
    : errors;
}

const FEATURE_PATHS: Readonly<Record<Feature, string>> = {
  affinity: "spec.sessionAffinity",
  ranges: joinPath("metadata.annotations", PORT_RANGES_ANNOTATION),
};

/** The Services that exceed a limit, and those that are served without a feature, each once for a reason. */
function excesses({ files, excess, state }: DesiredFromFiles): Diagnostic[] {
  const subjects = serviceSubjects(files.objects);
  const found = <T>(
    reasons: ReadonlyMap<ServicePortKey, string>,
    diagnosticOf: (subject: Subject, reason: string) => T,
  ) =>
    quarantinedServices(reasons).flatMap(({ service, reason }) => {
      const subject = subjects.get(service);
      return subject === undefined ? [] : [diagnosticOf(subject, reason)];
    });
  return [
    ...found(excess, (subject, reason) => errorAt(subject, "spec", `would be quarantined: ${reason}`)),
    ...FEATURES.flatMap((feature) =>
      found(state.budgets.without(feature), (subject, reason) =>
        warningAt(
          subject,
          FEATURE_PATHS[feature],
          `would be served without ${FEATURE_NAMES[feature]}: ${reason}`,
        ),
      ),
    ),
  ];
}

/** The service ports that the kernel refuses, as diagnostics of their Services. */
function kernelDiagnostics(kernel: KernelVerdict, { files }: DesiredFromFiles): Diagnostic[] {
  if (kernel.kind !== "refused") return [];
  const subjects = serviceSubjects(files.objects);
  return kernel.culprits.flatMap(({ service, name }) => {
    const subject: Subject | undefined = subjects.get(service.name);
    if (subject === undefined) return [];
    return [
      {
        ...warningAt(subject, "spec", `the kernel refuses the rules of ${name}`),
        severity: "error" as const,
      },
    ];
  });
}

function reportOf(
  { files, cache }: DesiredFromFiles,
  diagnostics: readonly Diagnostic[],
  kernel: KernelVerdict,
  passed: boolean,
): CheckReport {
  const ignored = new Map<string, number>();
  for (const { reason } of files.ignored) ignored.set(reason, (ignored.get(reason) ?? 0) + 1);
  return {
    diagnostics,
    kernel,
    counts: {
      services: cache.serviceCount,
      endpointSlices: cache.sliceCount,
      withoutClusterIP: files.placeholders,
      otherKinds: files.otherKinds,
    },
    ignored,
    passed,
  };
}

/** The output formats of `check`. */
const REPORT_FORMATS: Readonly<Record<"text" | "json" | "github", (report: CheckReport) => string>> = {
  text: (report) => lines([...report.diagnostics.map(diagnosticText), ...summaryLines(report)]),
  json: jsonText,
  github: (report) => lines([...report.diagnostics.map(annotation), ...summaryLines(report)]),
};

function lines(texts: readonly string[]): string {
  return `${texts.join("\n")}\n`;
}

/** As schemas/check-report.schema.json has it. */
function jsonText(report: CheckReport): string {
  const { diagnostics, kernel, counts, ignored, passed } = report;
  return `${JSON.stringify({
    verdict: passed ? "ok" : "refused",
    errors: countOf(report, "error"),
    warnings: countOf(report, "warning"),
    counts,
    ignored: [...ignored].sort().map(([reason, count]) => ({ reason, count })),
    kernel:
      kernel.kind === "refused"
        ? { ...kernel, culprits: kernel.culprits.map(({ family, name }) => ({ family, name })) }
        : kernel,
    diagnostics: diagnostics.map(({ severity, file, document, line, path, object, reason }) => {
      return { severity, file, document, line, path, object, reason };
    }),
  })}\n`;
}

function annotation({ severity, file, document, line, object, path, reason }: Diagnostic): string {
  const place = line === undefined && document > 1 ? ` (document ${document})` : "";
  return githubCommand(severity, `${path} ${reason}${place}`.trim(), {
    ...(file === "-" ? {} : { file }),
    ...(line === undefined ? {} : { line: String(line) }),
    ...(object === undefined ? {} : { title: object }),
  });
}
