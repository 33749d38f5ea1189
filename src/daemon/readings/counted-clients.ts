import type { Family } from "../../base/family.ts";
import type { TableReader } from "../../kernel/table-reader.ts";
import type { Table } from "../../nft/ast/ruleset.ts";
import { parseId } from "../../ruleset/list-ids.ts";
import type { RulesetPart } from "../../ruleset/node-context.ts";

/** The number of clients, by service port, in a set of a feature. */
export interface CountedClients {
  readonly family: Family;
  readonly set: string;
  /** What they are: `Clients with limited connections`. */
  readonly what: string;
  /** Maximum number of entries. */
  readonly size: number;
  readonly entries: number;
}

/** Counts the clients in the sets of features, and collects the ids of their service ports. */
export async function readCountedClients(
  tables: Pick<TableReader, "elements">,
  { family, sets }: Table,
  features: readonly Pick<RulesetPart, "clientSets">[],
): Promise<{ readonly clients: readonly CountedClients[]; readonly ids: ReadonlySet<number> }> {
  const clients: CountedClients[] = [];
  const ids = new Set<number>();
  for (const [set, what] of features.flatMap(({ clientSets = {} }) => Object.entries(clientSets))) {
    const spec = sets.get(set)?.spec;
    if (spec === undefined) continue;
    let entries = 0;
    for await (const batch of tables.elements(family, spec)) {
      entries += batch.length;
      for (const { key } of batch) ids.add(servicePortOf(key));
    }
    clients.push({ family, set, what, size: spec.size ?? 0, entries });
  }
  return { clients, ids };
}

/** Returns the service port id of an entry; 0, which no service port has, for an unknown key. */
export function servicePortOf(key: string): number {
  return parseId(Number.parseInt(key, 10))?.servicePort ?? 0;
}
