import type { RefusalEntry } from "./refusals.ts";

/** The packets of refusals at an earlier look, by {@link refusalKey}. */
export type RefusalPackets = ReadonlyMap<string, Pick<RefusalEntry, "packets">>;

/** Identifies the client and the destination of a refusal. */
export function refusalKey({ client, address, protocol, port }: RefusalEntry): string {
  return `${client} ${address} ${protocol} ${port}`;
}

/** The packets of some refusals, for {@link newRefusals}. */
export function refusalPackets(entries: readonly RefusalEntry[]): RefusalPackets {
  return new Map(entries.map((entry) => [refusalKey(entry), entry]));
}

/** The refusals since an earlier look, with the packets since then. Entries that expired meanwhile are in neither. */
export function newRefusals<Entry extends RefusalEntry>(before: RefusalPackets, now: readonly Entry[]): Entry[] {
  return now.flatMap((entry) => {
    const earlier = before.get(refusalKey(entry))?.packets ?? 0;
    // An entry that was made anew counts from the beginning.
    const packets = entry.packets < earlier ? entry.packets : entry.packets - earlier;
    return packets === 0 ? [] : [{ ...entry, packets }];
  });
}
