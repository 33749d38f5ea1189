import { ALL_PARTS } from "../../features/frontends.ts";
import { adoptNumbers } from "../../ruleset/adopt-numbers.ts";
import { compareRulesets, type RulesetDiff } from "../../ruleset/ruleset-diff.ts";
import { type Desired, loadDesired, loadFromFiles } from "../load/desired.ts";
import { keepParts, liveTables, tablesOfHost } from "../load/kernel-tables.ts";
import type { LoadRequest } from "../load/load-request.ts";

/** A difference, and the diagnostics of the objects behind it. */
export interface Comparison extends Pick<Desired, "diagnostics" | "notices" | "missingNode"> {
  readonly diff: RulesetDiff;
  /** The origin of the desired state that the kernel was compared with; absent for a comparison of files. */
  readonly origin?: Desired["origin"];
}

const PLACEHOLDERS =
  "note: Services without a cluster IP are shown with placeholder addresses (198.18.0.0/15, 2001:2::/48)";

/**
 * Compares this host's kernel with the desired state of the request's objects.
 * @throws AppError as {@link loadDesired} and {@link liveTables} do
 */
export async function compareWithKernel(request: LoadRequest): Promise<Comparison> {
  const live = await liveTables(request);
  const desired = await loadDesired(request, live.objects);
  const { state, diagnostics, origin, missingNode } = desired;
  const before = { ruleset: live.ruleset };
  keepParts(desired, before.ruleset);
  const after = { ruleset: await tablesOfHost(state.ruleset), state };
  adoptNumbers(state, before.ruleset, { desired: after.ruleset });
  const diff = compareRulesets(before, after, ALL_PARTS);
  return { diff, diagnostics, notices: [...desired.notices, ...live.notices], origin, missingNode };
}

/**
 * Compares the desired states of two sets of files. Services without a cluster IP get placeholder addresses
 * on both sides, which depend on their names alone.
 * @param against the files and directories of the other side
 * @throws AppError as {@link loadFromFiles} does
 */
export async function compareObjects(request: LoadRequest, against: readonly string[]): Promise<Comparison> {
  const after = await loadFromFiles(request, { placeholders: true });
  const before = await loadFromFiles({ ...request, paths: against }, { placeholders: true });
  const hasPlaceholders = after.files.placeholders + before.files.placeholders > 0;
  const [left, right] = [before.state, after.state];
  adoptNumbers(right, left.ruleset);
  return {
    diff: compareRulesets(
      { ruleset: left.ruleset, state: left },
      { ruleset: right.ruleset, state: right },
      ALL_PARTS,
    ),
    diagnostics: [...after.diagnostics, ...before.diagnostics],
    notices: [...after.notices, ...(hasPlaceholders ? [PLACEHOLDERS] : [])],
  };
}
