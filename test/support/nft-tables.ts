import type { Nft } from "../../src/kernel/nft.ts";
import { listTable } from "../../src/kernel/nft-listings.ts";
import type { TableReader } from "../../src/kernel/table-reader.ts";
import { type SetSpec, TABLE_NAME } from "../../src/nft/ast/ruleset.ts";
import { splitElement } from "../../src/nft/canonical/elements.ts";
import type { ListedElement } from "../../src/nft/elements.ts";
import { parseElement } from "./listed-elements.ts";

/** Reads our tables with nft, which may run in another network namespace or be a fake. */
export function nftTables(nft: Nft): TableReader {
  const listed: TableReader["elements"] = async function* (family, spec, signal) {
    const kind = spec.value === undefined ? "set" : "map";
    const text = await nft.list(["-j", "list", kind, family, TABLE_NAME, spec.name], signal);
    const objects: readonly Readonly<Record<string, { elem?: readonly unknown[] }>>[] =
      text === undefined ? [] : JSON.parse(text).nftables;
    yield objects.flatMap(({ [kind]: set }) => (set?.elem ?? []).map((item) => listedElement(spec, item)));
  };
  return {
    listTable: (family, signal) => listTable(nft, family, signal),
    elements: listed,
    element: async (family, spec, wanted) => {
      for await (const batch of listed(family, spec)) {
        const found = batch.find(({ key }) => key === wanted);
        if (found !== undefined) return found;
      }
      return undefined;
    },
  };
}

interface Properties {
  readonly counter?: { readonly packets: number };
  readonly timeout?: number;
  readonly expires?: number;
}

/** An element of nft's listing. */
export function listedElement(spec: SetSpec, item: unknown): ListedElement {
  const { key } = splitElement(item, spec.value !== undefined);
  const isObject = typeof key === "object" && key !== null && "elem" in key;
  const { counter, timeout, expires = timeout } = (isObject ? key.elem : {}) as Properties;
  return {
    ...parseElement(spec, item),
    ...(counter !== undefined && { packets: counter.packets }),
    ...(timeout !== undefined && { timeoutMs: 1000 * timeout }),
    ...(expires !== undefined && { expiresMs: 1000 * expires }),
  };
}
