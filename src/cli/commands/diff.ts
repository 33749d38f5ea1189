import { AppError } from "../../base/errors.ts";
import { compareObjects, compareWithKernel } from "../../inspect/diff/compare.ts";
import { isSame } from "../../ruleset/ruleset-diff.ts";
import { type Argv, listArgument } from "../command.ts";
import { commandOptions, loadRequest } from "../options.ts";
import { type CommandResult, EXIT, errorText } from "../output.ts";
import { diagnosticText, hasErrors } from "../print/diagnostic-text.ts";
import { diffJson, diffText } from "../print/diff-text.ts";
import { outputFormat } from "../print/output-format.ts";

/** Exit codes 0 and 1 are for the comparison's result, as diff(1) has it; 2 is for every failure to compare. */
const TROUBLE = EXIT.badInput;

/**
 * `diff`: the changes that applying some objects would make, in this kernel, or on a node that has other objects
 * (`--against`). Exit code 0: no difference; 1: some; 2: trouble.
 */
export async function run(argv: Argv): Promise<CommandResult> {
  try {
    return await compare(argv);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return { exitCode: TROUBLE, notices: [errorText(error).trimEnd()] };
  }
}

async function compare(argv: Argv): Promise<CommandResult> {
  const format = outputFormat(argv, ["text", "json"]);
  const against = listArgument(argv, "against");
  const { options, notices: optionNotices } = commandOptions(argv);
  const request = loadRequest(argv, options);
  const comparison = against.length === 0 ? await compareWithKernel(request) : await compareObjects(request, against);
  const notices = [...optionNotices, ...comparison.notices, ...comparison.diagnostics.map(diagnosticText)];
  if (hasErrors(comparison.diagnostics)) return { exitCode: TROUBLE, notices };
  const { diff } = comparison;
  return {
    exitCode: isSame(diff) ? EXIT.ok : EXIT.refused,
    output: format === "json" ? diffJson(diff) : diffText(diff),
    notices,
  };
}
