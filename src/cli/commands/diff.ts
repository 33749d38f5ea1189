import { badArgument } from "../../base/errors.ts";
import { alternatives, quoted } from "../../base/text.ts";
import { compareObjects, compareWithKernel } from "../../inspect/diff/compare.ts";
import type { LoadRequest } from "../../inspect/load/load-request.ts";
import { compareWithKubeProxy } from "../../inspect/outcomes/compare-kube-proxy.ts";
import {
  compareObjectOutcomes,
  isOfKind,
  OUTCOME_CHANGES,
  type OutcomeChange,
  type OutcomeReport,
} from "../../inspect/outcomes/compare-outcomes.ts";
import { hasNoDifference } from "../../ruleset/ruleset-diff.ts";
import { outputFormat } from "../argument-values.ts";
import { type Argv, isSet, listArgument, type Reporter, textArgument } from "../command.ts";
import { type CommandResult, EXIT } from "../command-result.ts";
import { diagnosticText, hasErrors, loadedNotices, originText } from "../notices.ts";
import { requestBesideDaemon } from "../options.ts";
import { diffJson, diffText } from "./diff-text.ts";
import { outcomeGithub, outcomeJson, outcomeText } from "./outcome-text.ts";

/**
 * `diff`: compares the rules for some objects with those in this kernel or with those for other objects
 * (`--against`). Or it compares the outcomes of connections with those under other objects (`--outcomes`) or
 * under kube-proxy's tables (`--with kube-proxy`). Exit code 0: no difference; 1: some; 2: no answer.
 */
export async function run(argv: Argv, reporter: Reporter): Promise<CommandResult> {
  const compare = isSet(argv, "outcomes") || textArgument(argv, "with") !== undefined ? outcomes : rules;
  refuseUnused(argv);
  return await compare(argv, await requestBesideDaemon(argv, reporter), reporter);
}

/**
 * Options that need one of several others, by name. Ignoring such an option would give a misleading answer.
 */
const NEEDED: Readonly<Record<string, readonly string[]>> = {
  live: ["with"],
  "with-tables": ["with"],
  "with-objects": ["outcomes"],
  "fail-on": ["outcomes", "with"],
};

/** Refuses options that the comparison would ignore. @throws AppError BAD_ARGUMENT */
function refuseUnused(argv: Argv): void {
  const given = (name: string) => argv[name] !== undefined && argv[name] !== false;
  for (const [name, needed] of Object.entries(NEEDED)) {
    if (!given(name) || needed.some(given)) continue;
    throw badArgument(`--${name} needs ${alternatives(needed.map((other) => `--${other}`))}`);
  }
  const excluding = ["outcomes", "with"].find(given);
  if (!given("against") || excluding === undefined) return;
  throw badArgument(`--against compares rules and cannot be combined with --${excluding}`, {
    hint: "to compare the outcomes under other objects: --outcomes --with-objects PATH",
  });
}

async function rules(argv: Argv, request: LoadRequest, { notice }: Reporter): Promise<CommandResult> {
  const format = outputFormat(argv, ["text", "json"]);
  const against = listArgument(argv, "against");
  const comparison =
    against.length === 0 ? await compareWithKernel(request) : await compareObjects(request, against);
  notice(loadedNotices(comparison));
  if (hasErrors(comparison.diagnostics)) return { exitCode: EXIT.failed };
  const { diff, origin } = comparison;
  const sides = {
    before: origin === undefined ? against.join(", ") : "kernel",
    after: origin === undefined ? request.paths.join(", ") : `desired (${originText(origin)})`,
  };
  return {
    exitCode: hasNoDifference(diff) ? EXIT.ok : EXIT.found,
    output: format === "json" ? diffJson(diff, sides) : diffText(diff, sides),
  };
}

async function outcomes(argv: Argv, request: LoadRequest, { notice }: Reporter): Promise<CommandResult> {
  const format = outputFormat(argv, ["text", "json", "github"]);
  const failOn = failingChanges(argv);
  const report = await outcomeReport(argv, request);
  notice([...report.notices, ...report.diagnostics.map(diagnosticText)]);
  if (hasErrors(report.diagnostics)) return { exitCode: EXIT.failed };
  const isFailed = report.differences.some((difference) => isOfKind(difference, failOn));
  const print = {
    text: outcomeText,
    json: outcomeJson,
    github: (of: OutcomeReport) => outcomeGithub(of, failOn),
  };
  return { exitCode: isFailed ? EXIT.found : EXIT.ok, output: print[format](report) };
}

async function outcomeReport(argv: Argv, request: LoadRequest): Promise<OutcomeReport> {
  const other = textArgument(argv, "with");
  if (other === "kube-proxy") {
    return await compareWithKubeProxy(request, listArgument(argv, "with-tables"), isSet(argv, "live"));
  }
  if (other !== undefined) throw badArgument(`--with must be kube-proxy, not ${quoted(other)}`);
  const paths = listArgument(argv, "with-objects");
  if (paths.length > 0) return await compareObjectOutcomes(request, paths);
  throw badArgument("no new objects given: use --with-objects PATH...", {
    hint: "or compare with kube-proxy's tables: --with kube-proxy",
  });
}

function failingChanges(argv: Argv): readonly OutcomeChange[] {
  const names = listArgument(argv, "fail-on").flatMap((text) => text.split(","));
  return names.map((name) => {
    const change = OUTCOME_CHANGES.find((known) => known === name);
    if (change !== undefined) return change;
    throw badArgument(`--fail-on must be one or more of ${OUTCOME_CHANGES.join(", ")}, not ${quoted(name)}`);
  });
}
