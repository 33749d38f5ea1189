import { counted } from "../../base/text.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import { deltaSize } from "../../nft/delta.ts";
import type { FullSyncReport } from "../../sync/full-sync.ts";

/** The result of one full sync, in one line with its line feed. */
export function applySummary(
  { serviceCount, sliceCount }: Pick<ObjectCache, "serviceCount" | "sliceCount">,
  { deltas, applied, unreadable }: FullSyncReport,
): string {
  const input = `${counted(serviceCount, "Service")} and ${counted(sliceCount, "EndpointSlice")}`;
  if (unreadable !== undefined) return `rebuilt for ${input}, because our tables could not be read: ${unreadable}\n`;
  if (applied.length === 0) return `nothing to change for ${input}\n`;
  const { chains, sets, elements } = deltaSize(deltas);
  const bytes = applied.reduce((sum, transaction) => sum + transaction.bytes, 0);
  const milliseconds = applied.reduce((sum, transaction) => sum + transaction.durationMs, 0);
  const parts = [counted(chains, "chain"), counted(sets, "set"), counted(elements, "element")].join(", ");
  return `applied for ${input}: ${parts} (${(bytes / 1000).toFixed(1)} kB in ${Math.round(milliseconds)} ms)\n`;
}
