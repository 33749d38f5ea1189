import type { Family } from "../base/family.ts";
import type { SetSpec } from "../nft/ast/ruleset.ts";
import { readListing } from "../nft/canonical/parse.ts";
import { asList, asNumber, asObject } from "../nft/canonical/shape.ts";
import type { TableReader } from "./table-reader.ts";

/**
 * Returns the number of packets that our rules answered with a TCP reset; 0 without a table. @throws AppError
 * as nft does
 */
export async function readResetPackets(
  tables: Pick<TableReader, "listTable">,
  family: Family,
): Promise<number> {
  const text = await tables.listTable(family);
  return text === undefined ? 0 : resetPackets(text);
}

/**
 * Sums the counters of rules with a reset in a listing. Throws NFT_OUTPUT for a form that nft never prints.
 */
export function resetPackets(listing: string): number {
  return readListing(listing).objects.reduce<number>((sum, object) => {
    const { rule } = asObject(object, "listed object");
    const statements = asList(asObject(rule ?? {}, "rule").expr ?? [], "rule").map((one) =>
      asObject(one, "statement"),
    );
    const isReset = statements.some(
      ({ reject }) => reject !== undefined && asObject(reject ?? {}, "reject").type === "tcp reset",
    );
    const counter = statements.find((one) => one.counter !== undefined)?.counter;
    return isReset && counter !== undefined
      ? sum + asNumber(asObject(counter, "counter").packets, "packets")
      : sum;
  }, 0);
}

/** An expiring element of a set of addresses and ports. */
export interface EndingTarget {
  /** `address . port` */
  readonly target: string;
  /** Seconds until it expires. */
  readonly expires: number;
}

/**
 * Reads a set of addresses and ports with expiring elements; empty if there is no such set.
 * @throws AppError as {@link TableReader.elements}
 */
export async function readEndingTargets(
  tables: Pick<TableReader, "elements">,
  family: Family,
  spec: SetSpec,
): Promise<EndingTarget[]> {
  const targets: EndingTarget[] = [];
  for await (const batch of tables.elements(family, spec)) {
    for (const { key, expiresMs = 0 } of batch)
      targets.push({ target: key, expires: Math.ceil(expiresMs / 1000) });
  }
  return targets;
}
