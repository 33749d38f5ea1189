import type { Family } from "../base/family.ts";
import type { Protocol } from "../model/ids.ts";
import { parseProtocol } from "../nft/canonical/constant.ts";
import { readListing } from "../nft/canonical/parse.ts";
import { asList, asNumber, asObject, asText } from "../nft/canonical/shape.ts";
import type { TableLister } from "./nft.ts";

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
  return entries.map((entry) => (entry.packets === 1 ? { ...entry, firstAt: lastPacketAt(entry, now) } : entry));
}

/**
 * Lists what the rules refused, of these families.
 * @param set the set's name
 * @param timeout seconds for which an entry lives after its last packet
 * @returns undefined where nothing is recorded, in no family
 * @throws AppError as nft does; NFT_OUTPUT for a set that is not of our making
 */
export async function readRefusals(
  nft: Pick<TableLister, "listSet">,
  families: readonly Family[],
  { set, timeout }: { readonly set: string; readonly timeout: number },
): Promise<RefusalEntry[] | undefined> {
  let entries: RefusalEntry[] | undefined;
  for (const family of families) {
    const text = await nft.listSet(family, "set", set);
    if (text !== undefined) entries = [...(entries ?? []), ...refusalEntries(text, family, timeout)];
  }
  return entries;
}

/** The entries in a listing of the set. Throws NFT_OUTPUT for a shape that nft never prints. */
export function refusalEntries(listing: string, family: Family, timeout: number): RefusalEntry[] {
  return readListing(listing).objects.flatMap((object) => {
    const { set } = asObject(object, "listed object");
    if (set === undefined) return [];
    return asList(asObject(set, "set").elem ?? [], "elements").map((item) => {
      const { val, expires, counter } = asObject(asObject(item, "element").elem, "element");
      const [client, address, protocol, port] = asList(asObject(val, "key").concat, "key");
      return {
        family,
        client: asText(client, "client"),
        address: asText(address, "address"),
        protocol: parseProtocol(protocol) as Protocol,
        port: asNumber(port, "port"),
        packets: asNumber(asObject(counter, "counter").packets, "packets"),
        silentFor: Math.max(timeout - asNumber(expires, "seconds left"), 0),
      };
    });
  });
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
export function newRefusals<Entry extends RefusalEntry>(before: RefusalPackets, now: readonly Entry[]): Entry[] {
  return now.flatMap((entry) => {
    const earlier = before.get(refusalKey(entry))?.packets ?? 0;
    // An entry that was made anew counts from the beginning.
    const packets = entry.packets < earlier ? entry.packets : entry.packets - earlier;
    return packets === 0 ? [] : [{ ...entry, packets }];
  });
}
