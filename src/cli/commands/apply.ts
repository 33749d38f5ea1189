import { Nft } from "../../kernel/nft.ts";
import { probeFeatures } from "../../kernel/probe.ts";
import { refuseNothing } from "../../kube/files/diagnostic.ts";
import { deltaSize } from "../../nft/delta.ts";
import { type FullSyncReport, fullSync } from "../../sync/full-sync.ts";
import type { Argv } from "../command.ts";
import { type Desired, loadFromFiles } from "../desired.ts";
import { ofThisHost } from "../kernel-now.ts";
import { type CommandResult, EXIT } from "../output.ts";
import { conflictNotices } from "../print/conflict-notices.ts";
import { diagnosticText, hasErrors } from "../print/diagnostic-text.ts";

/** `apply`: one full sync from files. Refused objects leave the kernel as it is. */
export async function run(argv: Argv): Promise<CommandResult> {
  const desired = await loadFromFiles(argv);
  const { options, cache, state, problems } = desired;
  const said = [...desired.notices, ...problems.map(diagnosticText)];
  if (hasErrors(problems)) {
    return { exitCode: EXIT.refused, notices: [...said, "nothing was applied: the kernel's rules stay as they are"] };
  }
  refuseNothing(cache.serviceCount + cache.sliceCount + cache.serviceCIDRs().length);
  const nft = new Nft({ path: options.nftPath });
  await probeFeatures(nft);
  const report = await fullSync(nft, await ofThisHost(state.ruleset));
  return {
    exitCode: EXIT.ok,
    output: `${summary(desired, report)}\n`,
    notices: [...said, ...conflictNotices(state.conflicts())],
  };
}

function summary({ cache }: Desired, { deltas, applied, unreadable }: FullSyncReport): string {
  const input = `${cache.serviceCount} Services, ${cache.sliceCount} EndpointSlices`;
  if (unreadable !== undefined) return `rebuilt for ${input}, because our tables could not be read: ${unreadable}`;
  if (applied.length === 0) return `nothing to change for ${input}`;
  const { chains, sets, elements } = deltaSize(deltas);
  const bytes = applied.reduce((sum, transaction) => sum + transaction.bytes, 0);
  const milliseconds = applied.reduce((sum, transaction) => sum + transaction.durationMs, 0);
  const size = `${(bytes / 1000).toFixed(1)} kB in ${Math.round(milliseconds)} ms`;
  return `applied for ${input}: ${chains} chains, ${sets} sets, ${elements} elements (${size})`;
}
