import type { RefusalEntry } from "./refusals.ts";

/** The refusals since an earlier look, with the packets since then. Entries that expired meanwhile are in neither. */
export function newRefusals(before: readonly RefusalEntry[], now: readonly RefusalEntry[]): RefusalEntry[] {
  const known = new Map(before.map((entry) => [keyOf(entry), entry.packets]));
  return now.flatMap((entry) => {
    const earlier = known.get(keyOf(entry)) ?? 0;
    // An entry that was made anew counts from the beginning.
    const packets = entry.packets < earlier ? entry.packets : entry.packets - earlier;
    return packets === 0 ? [] : [{ ...entry, packets }];
  });
}

function keyOf({ client, address, protocol, port }: RefusalEntry): string {
  return `${client} ${address} ${protocol} ${port}`;
}
