import { badArgument } from "../../base/errors.ts";
import { counted, rounded } from "../../base/text.ts";
import type { ProxyOptions } from "../../config/options.ts";
import { withoutDaemon } from "../../daemon/namespace-lock.ts";
import { workingFeatures } from "../../features/selection.ts";
import { type Desired, loadFromFiles } from "../../inspect/load/desired.ts";
import { finalParts, tablesOfHost } from "../../inspect/load/kernel-tables.ts";
import { hostFiles } from "../../kernel/host.ts";
import { openTables } from "../../kernel/netlink-tables.ts";
import { nftProgram } from "../../kernel/nft.ts";
import { systemClock } from "../../kernel/system-clock.ts";
import { remainingTimes } from "../../kernel/table-reader.ts";
import { refuseNoObjects } from "../../kube/files/diagnostic.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { Ruleset } from "../../nft/ast/ruleset.ts";
import { deltaSize } from "../../nft/delta.ts";
import { type FullSyncReport, fullSync } from "../../sync/full-sync.ts";
import { checkFeatures, supportedOptions } from "../../sync/supported-options.ts";
import { type Argv, isSet, type Reporter } from "../command.ts";
import { type CommandResult, EXIT } from "../command-result.ts";
import { budgetNotices, conflictNotices, hasErrors, loadedNotices, missingNodeText } from "../notices.ts";
import { commandOptions, loadRequest } from "../options.ts";

/**
 * `apply`: one full sync from files. Objects with errors leave the kernel as it is; a Service beyond a budget
 * gets no rules, the others get theirs, and the exit code is 1. What features add
 * for endpoints that the kernel has and the files lack takes effect at once. Without
 * `--force` it refuses while a daemon runs.
 */
export async function run(argv: Argv, reporter: Reporter): Promise<CommandResult> {
  const given = commandOptions(argv, reporter);
  const unsupported = await checkFeatures(nftProgram({ path: given.nftPath }), given);
  reporter.notice(
    unsupported.map(
      ({ missing, consequence }) => `warning: ${consequence}: ${missing.message}; ${missing.hint}`,
    ),
  );
  const options = supportedOptions(given, unsupported);
  const desired = await loadFromFiles(loadRequest(argv, options));
  const { cache, state, diagnostics } = desired;
  if (hasErrors(diagnostics)) {
    reporter.notice([
      ...loadedNotices(desired),
      "nothing was applied; the rules in the kernel are unchanged",
    ]);
    return { exitCode: EXIT.failed };
  }
  refuseOtherNode(desired);
  refuseNoObjects(cache.serviceCount + cache.sliceCount + cache.serviceCIDRs().length);
  const { report, warnings } = await withoutDaemon(isSet(argv, "force"), REFUSAL, () =>
    program(desired, options),
  );
  reporter.notice([
    ...loadedNotices(desired),
    ...budgetNotices(desired),
    ...conflictNotices(state.conflicts()),
    ...warnings.map((text) => `warning: ${text}`),
  ]);
  return {
    exitCode: desired.excess.size === 0 ? EXIT.ok : EXIT.found,
    output: applySummary(cache, report),
  };
}

const REFUSAL = {
  consequence: "replace these rules with those of its own objects: nothing was applied",
  hint: "stop it first; --force applies them anyway, until its next verification or full sync",
};

/** Programs the kernel. @returns also the warnings of features */
async function program({ state, cache }: Desired, options: ProxyOptions) {
  const nft = nftProgram({ path: options.nftPath });
  const reader = await openTables(nft, systemClock);
  const parts = finalParts(options, cache);
  const adopt = async (kernel: Ruleset) => {
    for (const part of parts) await part.adopt(kernel, state, remainingTimes(reader.tables));
  };
  const tables = await tablesOfHost(state.ruleset);
  const report = await fullSync(nft, reader.tables, tables, { state, adopt }).finally(() => reader.close());
  const host = { nft, files: hostFiles, settings: options.settings };
  const warnings = await Promise.all(
    workingFeatures(options).map(({ afterApply }) => afterApply?.(tables, host)),
  );
  return { report, warnings: warnings.flatMap((ofOne) => ofOne ?? []) };
}

/**
 * Refuses objects with Nodes, but without this one: the rules would lack local endpoints and NodePort
 * addresses.
 * @throws AppError BAD_ARGUMENT
 */
function refuseOtherNode({ missingNode }: Desired): void {
  if (missingNode === undefined || missingNode.candidates.length === 0) return;
  throw badArgument(missingNodeText(missingNode), {
    hint: "--hostname-override names the node to apply; nothing was applied",
  });
}

/** Summarises a full sync in one line, with its line feed. */
export function applySummary(
  { serviceCount, sliceCount }: Pick<ObjectCache, "serviceCount" | "sliceCount">,
  { deltas, applied, unreadable }: FullSyncReport,
): string {
  const input = `${counted(serviceCount, "Service")} and ${counted(sliceCount, "EndpointSlice")}`;
  if (unreadable !== undefined)
    return `rebuilt for ${input}, because our tables could not be read: ${unreadable}\n`;
  if (applied.length === 0) return `nothing to change for ${input}\n`;
  const { chains, sets, elements } = deltaSize(deltas);
  const bytes = applied.reduce((sum, transaction) => sum + transaction.bytes, 0);
  const milliseconds = applied.reduce((sum, transaction) => sum + transaction.durationMs, 0);
  const parts = [counted(chains, "chain"), counted(sets, "set"), counted(elements, "element")].join(", ");
  return `applied for ${input}: ${parts} (${rounded(bytes / 1000)} kB in ${rounded(milliseconds)} ms)\n`;
}
