import type { Family } from "../../base/family.ts";
import { declaredTable } from "../../kernel/read-kernel.ts";
import type { TableReader } from "../../kernel/table-reader.ts";
import type { Protocol } from "../../model/ids.ts";
import { type ListedElement, splitParts } from "../../nft/elements.ts";
import { lastPacketAt, type RefusalEntry, type SeenRefusal } from "../seam/refusals.ts";
import { REFUSED, REMEMBERED } from "./rules.ts";

/**
 * Reads the recorded refusals of these families as {@link readEntries} does. Only those of a single packet
 * get the time of their first one.
 * @param now the time, milliseconds since 1970
 */
export async function readRefusals(
  tables: TableReader,
  families: readonly Family[],
  now: number,
): Promise<SeenRefusal[] | undefined> {
  const entries = await readEntries(tables, families);
  return entries && withFirstTimes(entries, undefined, now);
}

/**
 * Reads the recorded refusals of these families.
 * @returns undefined if no family records refusals
 * @throws AppError as {@link TableReader} does
 */
export async function readEntries(
  tables: TableReader,
  families: readonly Family[],
): Promise<RefusalEntry[] | undefined> {
  let entries: RefusalEntry[] | undefined;
  for (const family of families) {
    const spec = (await declaredTable(tables, family))?.sets.get(REFUSED)?.spec;
    if (spec === undefined) continue;
    entries ??= [];
    for await (const batch of tables.elements(family, spec)) {
      for (const element of batch) entries.push(entryOf(family, element));
    }
  }
  return entries;
}

function entryOf(family: Family, { key, packets = 0, expiresMs = 0 }: ListedElement): RefusalEntry {
  const [client = "", address = "", protocol, port] = splitParts(key);
  const silentFor = Math.max(REMEMBERED - Math.ceil(expiresMs / 1000), 0);
  return { family, client, address, protocol: protocol as Protocol, port: Number(port), packets, silentFor };
}

/**
 * Adds the times of first packets, as far as they are known: the kernel does not record them.
 * @param before the last reading, which keeps its times; undefined for none
 * @param now the time, milliseconds since 1970
 */
export function withFirstTimes(
  entries: readonly RefusalEntry[],
  before: readonly SeenRefusal[] | undefined,
  now: number,
): SeenRefusal[] {
  const known = new Map(before?.map((entry) => [refusalKey(entry), entry]));
  return entries.map((entry): SeenRefusal => {
    const earlier = known.get(refusalKey(entry));
    const isKnown = earlier !== undefined && entry.packets >= earlier.packets;
    const isWholeSeen = before !== undefined || entry.packets === 1;
    const firstAt = isKnown ? earlier.firstAt : isWholeSeen ? lastPacketAt(entry, now) : undefined;
    return firstAt === undefined ? entry : { ...entry, firstAt };
  });
}

/** Identifies the client and the destination of a refusal. */
export function refusalKey({ client, address, protocol, port }: RefusalEntry): string {
  return `${client} ${address} ${protocol} ${port}`;
}

/**
 * Returns the refusals since an earlier reading, with the packets since then. Entries that expired in between
 * are in neither.
 */
export function newRefusals<Entry extends RefusalEntry>(
  before: readonly RefusalEntry[],
  now: readonly Entry[],
): Entry[] {
  const known = new Map(before.map((entry) => [refusalKey(entry), entry.packets]));
  return now.flatMap((entry) => {
    const earlier = known.get(refusalKey(entry)) ?? 0;
    // A recreated entry counts from zero.
    const packets = entry.packets < earlier ? entry.packets : entry.packets - earlier;
    return packets === 0 ? [] : [{ ...entry, packets }];
  });
}
