import type { Family } from "../base/family.ts";
import type { Protocol } from "../model/ids.ts";
import { type ListedElement, splitParts } from "../nft/elements.ts";
import { declaredTable } from "./read-kernel.ts";
import type { TableReader } from "./table-reader.ts";

/** A client's packets to one destination that our rules refused or dropped. */
export interface RefusalEntry {
  readonly family: Family;
  readonly client: string;
  readonly address: string;
  readonly protocol: Protocol;
  /** 1..65535 */
  readonly port: number;
  /** Since the entry was made, that is since the first packet after an hour without one. */
  readonly packets: number;
  /** Seconds since the last packet. */
  readonly silentFor: number;
}

/** A refusal, and when it was first seen, as far as a daemon watched it from its beginning. */
export interface SeenRefusal extends RefusalEntry {
  /** Milliseconds since 1970: a packet within half a minute of the first one. */
  readonly firstAt?: number;
}

/** When the last packet of a refusal came. @param now when it was read, milliseconds since 1970 */
export function lastPacketAt({ silentFor }: RefusalEntry, now: number): number {
  return now - silentFor * 1000;
}

/** Adds the times of first packets that the kernel's entries tell: that of a single packet is the last one, too. */
export function withSinglePackets(entries: readonly RefusalEntry[], now: number): SeenRefusal[] {
  return entries.map((entry) =>
    entry.packets === 1 ? { ...entry, firstAt: lastPacketAt(entry, now) } : entry,
  );
}

/**
 * Reads what the rules refused, of these families.
 * @param set the set's name
 * @param timeout seconds for which an entry lives after its last packet
 * @returns undefined where nothing is recorded, in no family
 * @throws AppError as {@link TableReader} does
 */
export async function readRefusals(
  tables: TableReader,
  families: readonly Family[],
  { set, timeout }: { readonly set: string; readonly timeout: number },
): Promise<RefusalEntry[] | undefined> {
  let entries: RefusalEntry[] | undefined;
  for (const family of families) {
    const spec = (await declaredTable(tables, family))?.sets.get(set)?.spec;
    if (spec === undefined) continue;
    entries ??= [];
    for await (const batch of tables.elements(family, spec)) {
      for (const element of batch) entries.push(refusalEntry(family, element, timeout));
    }
  }
  return entries;
}

function refusalEntry(
  family: Family,
  { key, packets = 0, expiresMs = 0 }: ListedElement,
  timeout: number,
): RefusalEntry {
  const [client = "", address = "", protocol, port] = splitParts(key);
  return {
    family,
    client,
    address,
    protocol: protocol as Protocol,
    port: Number(port),
    packets,
    silentFor: Math.max(timeout - Math.ceil(expiresMs / 1000), 0),
  };
}

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
export function newRefusals<Entry extends RefusalEntry>(
  before: RefusalPackets,
  now: readonly Entry[],
): Entry[] {
  return now.flatMap((entry) => {
    const earlier = before.get(refusalKey(entry))?.packets ?? 0;
    // An entry that was made anew counts from the beginning.
    const packets = entry.packets < earlier ? entry.packets : entry.packets - earlier;
    return packets === 0 ? [] : [{ ...entry, packets }];
  });
}
