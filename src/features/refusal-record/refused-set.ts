import type { Family } from "../../base/family.ts";
import { declaredTable } from "../../kernel/read-kernel.ts";
import type { TableReader } from "../../kernel/table-reader.ts";
import type { Protocol } from "../../model/ids.ts";
import { type ListedElement, splitParts } from "../../nft/elements.ts";
import { lastPacketAt, type RefusalEntry, type SeenRefusal } from "../seam/refusals.ts";
import { REFUSED, REMEMBERED } from "./rules.ts";

/**
 * Reads the refusals of these families, with the times of the first packets of those that have a single one.
 * @param now the time, milliseconds since 1970
 * @returns undefined if no family records refusals
 * @throws AppError as {@link TableReader} does
 */
export async function readRefusals(
  tables: TableReader,
  families: readonly Family[],
  now: number,
): Promise<SeenRefusal[] | undefined> {
  let entries: SeenRefusal[] | undefined;
  for (const family of families) {
    const spec = (await declaredTable(tables, family))?.sets.get(REFUSED)?.spec;
    if (spec === undefined) continue;
    entries ??= [];
    for await (const batch of tables.elements(family, spec)) {
      for (const element of batch) entries.push(refusalOf(family, element, now));
    }
  }
  return entries;
}

function refusalOf(
  family: Family,
  { key, packets = 0, expiresMs = 0 }: ListedElement,
  now: number,
): SeenRefusal {
  const [client = "", address = "", protocol, port] = splitParts(key);
  const silentFor = Math.max(REMEMBERED - Math.ceil(expiresMs / 1000), 0);
  return {
    ...{ family, client, address, protocol: protocol as Protocol, port: Number(port), packets, silentFor },
    ...(packets === 1 ? { firstAt: lastPacketAt({ silentFor }, now) } : {}),
  };
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
