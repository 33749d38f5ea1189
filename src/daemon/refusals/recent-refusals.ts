import { socketText } from "../../base/text.ts";
import type { RefusalEntry } from "../../kernel/refusals.ts";

/** What was refused within the last hour, as of the last look. */
export interface RecentRefusals {
  readonly packets: number;
  readonly clients: number;
  readonly destinations: number;
  /** Some of them, the latest first: `10.244.2.9 to 10.96.0.10:80/tcp`. */
  readonly latest: readonly string[];
}

/** The most refusals in {@link RecentRefusals.latest}. */
const MOST_LATEST = 5;

/** Sums up what the kernel remembers. */
export function recentRefusals(entries: readonly RefusalEntry[]): RecentRefusals {
  return {
    packets: entries.reduce((sum, { packets }) => sum + packets, 0),
    clients: new Set(entries.map(({ client }) => client)).size,
    destinations: new Set(entries.map(({ address, protocol, port }) => `${address} ${protocol} ${port}`)).size,
    latest: latestOf(entries).map(({ client, address, protocol, port }) => {
      return `${client} to ${socketText(address, port)}/${protocol}`;
    }),
  };
}

/** The latest entries, found without sorting all: there may be 100,000. */
function latestOf(entries: readonly RefusalEntry[]): readonly RefusalEntry[] {
  const latest: RefusalEntry[] = [];
  for (const entry of entries) {
    if (latest.length === MOST_LATEST && entry.silentFor >= (latest.at(-1)?.silentFor ?? 0)) continue;
    const after = latest.findIndex(({ silentFor }) => silentFor > entry.silentFor);
    latest.splice(after === -1 ? latest.length : after, 0, entry);
    latest.length = Math.min(latest.length, MOST_LATEST);
  }
  return latest;
}
