import type { Family } from "../base/family.ts";
import type { Protocol } from "../model/ids.ts";
import { type ListedElement, splitParts } from "../nft/elements.ts";
import { declaredTable } from "./read-kernel.ts";
import type { TableReader } from "./table-reader.ts";

/** Packets of one client to one destination that our rules refused or dropped. */
export interface RefusalEntry {
  readonly family: Family;
  readonly client: string;
  readonly address: string;
  readonly protocol: Protocol;
  /** 1..65535 */
  readonly port: number;
  /** Since the entry was created by the first packet after an hour without any. */
  readonly packets: number;
  /** Seconds since the last packet. */
  readonly silentFor: number;
}

/** A refusal with the time of its first packet, if a daemon has watched it from the start. */
export interface SeenRefusal extends RefusalEntry {
  /** Milliseconds since 1970, at most half a minute off. */
  readonly firstAt?: number;
}

/** Returns the time of the last packet of a refusal. @param now time of reading, milliseconds since 1970 */
export function lastPacketAt({ silentFor }: RefusalEntry, now: number): number {
  return now - silentFor * 1000;
}

/** Adds the known times of first packets: a refusal with a single packet has its last one as the first. */
export function withSinglePackets(entries: readonly RefusalEntry[], now: number): SeenRefusal[] {
  return entries.map((entry) =>
    entry.packets === 1 ? { ...entry, firstAt: lastPacketAt(entry, now) } : entry,
  );
}

/**
 * Reads the refusals of these families.
 * @param set name of the set
 * @param timeout seconds for which an entry stays after its last packet
 * @returns undefined if no family records refusals
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

/** Packet counts of refusals at an earlier time, by {@link refusalKey}. */
export type RefusalPackets = ReadonlyMap<string, Pick<RefusalEntry, "packets">>;

/** Identifies the client and the destination of a refusal. */
export function refusalKey({ client, address, protocol, port }: RefusalEntry): string {
  return `${client} ${address} ${protocol} ${port}`;
}

/** Returns the packet counts of refusals, for {@link newRefusals}. */
export function refusalPackets(entries: readonly RefusalEntry[]): RefusalPackets {
  return new Map(entries.map((entry) => [refusalKey(entry), entry]));
}

/**
 * Returns the refusals since an earlier reading, with the packets since then. Entries that expired in between
 * are in neither.
 */
export function newRefusals<Entry extends RefusalEntry>(
  before: RefusalPackets,
  now: readonly Entry[],
): Entry[] {
  return now.flatMap((entry) => {
    const earlier = before.get(refusalKey(entry))?.packets ?? 0;
    // A recreated entry counts from zero.
    const packets = entry.packets < earlier ? entry.packets : entry.packets - earlier;
    return packets === 0 ? [] : [{ ...entry, packets }];
  });
}
