import type { TableDelta } from "../../src/nft/delta.ts";

/** The changes of objects in words, sorted: `+ chain balance-2`, `- set m`, `~ chain services`. */
export function objectWords(deltas: readonly Pick<TableDelta, "objects">[]): string[] {
  return deltas
    .flatMap(({ objects }) => objects)
    .map(({ kind, name, before, after }) => `${before ? (after ? "~" : "-") : "+"} ${kind} ${name}`)
    .sort();
}
