import { AppError } from "../../base/errors.ts";
import { compareRulesets, isSame, type OwnedRuleset } from "../../ruleset/ruleset-diff.ts";
import { type Argv, listArgument } from "../command.ts";
import { type Desired, loadDesired, loadFromFiles } from "../desired.ts";
import { kernelNow, ofThisHost } from "../kernel-now.ts";
import { type CommandResult, EXIT, errorText } from "../output.ts";
import { diagnosticText, hasErrors } from "../print/diagnostic-text.ts";
import { diffJson, diffText } from "../print/diff-report.ts";
import { outputFormat } from "../print/output-format.ts";

/** As diff(1) has it, whatever the trouble: 1 is for a difference. */
const TROUBLE = EXIT.badInput;

/**
 * `diff`: what applying some objects would change, in this kernel, or on a node that has other objects (`--against`).
 * Exit code 0: nothing; 1: something; 2: trouble.
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
  const sides = against.length === 0 ? await withKernel(argv) : await withFiles(argv, against);
  const said = sides.read.flatMap(({ notices, problems }) => [...notices, ...problems.map(diagnosticText)]);
  if (sides.read.some(({ problems }) => hasErrors(problems))) return { exitCode: TROUBLE, notices: said };
  const diff = compareRulesets(sides.before, sides.after);
  return {
    exitCode: isSame(diff) ? EXIT.ok : EXIT.refused,
    output: format === "json" ? diffJson(diff) : diffText(diff),
    notices: said,
  };
}

/** What is compared, and what was read for it. */
interface Sides {
  readonly before: OwnedRuleset;
  readonly after: OwnedRuleset;
  readonly read: readonly Desired[];
}

async function withKernel(argv: Argv): Promise<Sides> {
  const desired = await loadDesired(argv);
  const after = { ...owned(desired), ruleset: await ofThisHost(desired.state.ruleset) };
  return { before: { ruleset: await kernelNow(desired.options) }, after, read: [desired] };
}

/** Manifests have no cluster IPs yet: both sides get stand-ins, which depend on names alone. */
async function withFiles(argv: Argv, against: readonly string[]): Promise<Sides> {
  const after = await loadFromFiles(argv, { placeholders: true });
  const before = await loadFromFiles(argv, { placeholders: true, paths: against });
  const placeholders = after.files.placeholders + before.files.placeholders;
  const notice = "note: Services without a cluster IP are shown with stand-in addresses (198.18.0.0/15, 2001:2::/48)";
  const notices = [...after.notices, ...(placeholders === 0 ? [] : [notice])];
  // The options are the same on both sides, and so is what there is to say of them.
  return {
    before: owned(before),
    after: owned(after),
    read: [
      { ...after, notices },
      { ...before, notices: [] },
    ],
  };
}

function owned({ state }: Desired): OwnedRuleset {
  return { ruleset: state.ruleset, state };
}
