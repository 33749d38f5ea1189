import type { Family } from "../base/family.ts";
import { readListing } from "../nft/canonical/parse.ts";
import { asList, asNumber, asObject, asText } from "../nft/canonical/shape.ts";
import { joinParts } from "../nft/elements.ts";
import type { TableLister } from "./nft.ts";

/** Counts packets that rules of our table answered with a TCP reset; 0 where there is no table. @throws AppError as nft does */
export async function readResetPackets(nft: Pick<TableLister, "listTable">, family: Family): Promise<number> {
  const text = await nft.listTable(family);
  return text === undefined ? 0 : resetPackets(text);
}

/** The packets that rules with a reset have counted, in a listing. Throws NFT_OUTPUT for a shape that nft never prints. */
export function resetPackets(listing: string): number {
  return readListing(listing).objects.reduce<number>((sum, object) => {
    const { rule } = asObject(object, "listed object");
    const statements = asList(asObject(rule ?? {}, "rule").expr ?? [], "rule").map((one) => asObject(one, "statement"));
    const isReset = statements.some(
      ({ reject }) => reject !== undefined && asObject(reject ?? {}, "reject").type === "tcp reset",
    );
    const counter = statements.find((one) => one.counter !== undefined)?.counter;
    return isReset && counter !== undefined ? sum + asNumber(asObject(counter, "counter").packets, "packets") : sum;
  }, 0);
}

/** An element of a set of addresses and ports that ends by itself. */
export interface EndingTarget {
  /** `address . port` */
  readonly target: string;
  /** Seconds until it ends. */
  readonly expires: number;
}

/**
 * Lists a set of addresses and ports whose elements end by themselves; nothing where there is no such set.
 * @throws AppError as nft does; NFT_OUTPUT for a set that is not of our making
 */
export async function readEndingTargets(
  nft: Pick<TableLister, "listSet">,
  family: Family,
  set: string,
): Promise<EndingTarget[]> {
  const text = await nft.listSet(family, "set", set);
  return text === undefined ? [] : endingTargets(text);
}

/** The elements in a listing of such a set. Throws NFT_OUTPUT for a shape that nft never prints. */
export function endingTargets(listing: string): EndingTarget[] {
  return readListing(listing).objects.flatMap((object) => {
    const { set } = asObject(object, "listed object");
    if (set === undefined) return [];
    return asList(asObject(set, "set").elem ?? [], "elements").map((item) => {
      const { val, expires } = asObject(asObject(item, "element").elem, "element");
      const [address, port] = asList(asObject(val, "key").concat, "key");
      return {
        target: joinParts(asText(address, "address"), asNumber(port, "port")),
        expires: asNumber(expires, "seconds left"),
      };
    });
  });
}
