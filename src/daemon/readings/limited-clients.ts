import type { Family } from "../../base/family.ts";
import type { TableReader } from "../../kernel/table-reader.ts";
import type { Table } from "../../nft/ast/ruleset.ts";
import { parseId } from "../../ruleset/list-ids.ts";
import { CLIENT_CONNECTIONS, CLIENT_RATES } from "../../ruleset/sets.ts";

/** The number of clients, by service port, whose connections a set counts. */
export interface LimitedClients {
  readonly family: Family;
  readonly set: typeof CLIENT_CONNECTIONS | typeof CLIENT_RATES;
  readonly entries: number;
}

/** Counts the clients in the sets of limits, and collects the ids of their service ports. */
export async function readLimitedClients(
  tables: Pick<TableReader, "elements">,
  { family, sets }: Table,
): Promise<{ readonly clients: readonly LimitedClients[]; readonly ids: ReadonlySet<number> }> {
  const clients: LimitedClients[] = [];
  const ids = new Set<number>();
  for (const set of [CLIENT_CONNECTIONS, CLIENT_RATES] as const) {
    const spec = sets.get(set)?.spec;
    if (spec === undefined) continue;
    let entries = 0;
    for await (const batch of tables.elements(family, spec)) {
      entries += batch.length;
      for (const { key } of batch) ids.add(servicePortOf(key));
    }
    clients.push({ family, set, entries });
  }
  return { clients, ids };
}

/** Returns the service port id of an entry; 0, which no service port has, for an unknown key. */
export function servicePortOf(key: string): number {
  return parseId(Number.parseInt(key, 10))?.servicePort ?? 0;
}
