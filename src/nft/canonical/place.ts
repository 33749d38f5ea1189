import type { Family } from "../../base/family.ts";
import type { Rule } from "../ast/json.ts";
import { type Chain, type ElementSet, type Ruleset, type SetSpec, TABLE_NAME, type Table } from "../ast/ruleset.ts";
import type { Element } from "../elements.ts";
import { keyText, valueText } from "../text/element-text.ts";
import { parseBaseChain, parseSetSpec } from "./declarations.ts";
import { canonicalRule } from "./rule.ts";
import { asList, asObject, asText, type JsonObject, notUnderstood } from "./shape.ts";

/** A {@link Ruleset} that is being put together. */
export type Draft = Partial<Record<Family, DraftTable>>;

/** A table that is being put together. */
export interface DraftTable extends Table {
  readonly chains: Map<string, DraftChain>;
  readonly sets: Map<string, DraftSet>;
}

interface DraftChain extends Chain {
  readonly rules: Rule[];
}

interface DraftSet extends ElementSet {
  readonly elements: Map<string, string>;
}

/** The family of an object if it is, or is in, one of our two tables; undefined for other tables' objects. */
export function ownFamily(kind: string, object: JsonObject): Family | undefined {
  const { family } = object;
  const table = kind === "table" ? object.name : object.table;
  return table === TABLE_NAME && (family === "ip" || family === "ip6") ? family : undefined;
}

/** The table of a family in a draft. @throws AppError NFT_OUTPUT when there is none */
export function tableOf(draft: Draft, family: Family): DraftTable {
  const table = draft[family];
  if (table === undefined) throw notUnderstood(`object of the missing table ${family} ${TABLE_NAME}`, family);
  return table;
}

/** A member of a table by its name. @throws AppError NFT_OUTPUT when there is none */
export function memberOf<T>(members: ReadonlyMap<string, T>, name: unknown): T {
  const member = members.get(asText(name, "name"));
  if (member === undefined) throw notUnderstood(`reference to the missing "${name}"`, name);
  return member;
}

/**
 * Adds one object as listed or as written (`{"chain": {...}}` apart: kind and body) to the draft.
 * An object that exists already stays as it is, as with nft's `add`. Objects of other tables are ignored.
 */
export function place(draft: Draft, kind: string, body: unknown): void {
  const object = asObject(body, kind);
  const family = ownFamily(kind, object);
  if (family === undefined) return;
  if (kind === "table") {
    draft[family] ??= { family, name: TABLE_NAME, chains: new Map(), sets: new Map() };
    return;
  }
  const table = tableOf(draft, family);
  if (kind === "chain") placeChain(table, object);
  else if (kind === "rule") memberOf(table.chains, object.chain).rules.push(canonicalRule(object.expr));
  else if (kind === "set" || kind === "map") placeSet(table, kind, object);
  else if (kind === "element") placeElements(memberOf(table.sets, object.name), asList(object.elem, kind));
  else throw notUnderstood(`object "${kind}"`, body);
}

function placeChain(table: DraftTable, object: JsonObject): void {
  const name = asText(object.name, "chain");
  if (table.chains.has(name)) return;
  const base = parseBaseChain(object);
  table.chains.set(name, { name, ...(base !== undefined && { base }), rules: [] });
}

function placeSet(table: DraftTable, kind: "set" | "map", object: JsonObject): void {
  const spec = parseSetSpec(kind, object);
  const set = table.sets.get(spec.name) ?? { spec, elements: new Map() };
  table.sets.set(spec.name, set);
  if (object.elem !== undefined) placeElements(set, asList(object.elem, "elements"));
}

function placeElements({ spec, elements }: DraftSet, list: readonly unknown[]): void {
  if (spec.dynamic) return;
  for (const item of list) {
    const { key, value } = parseElement(spec, item);
    elements.set(key, value);
  }
}

/** An element of a set or map as listed, in canonical form. @throws AppError NFT_OUTPUT when it is not understood */
export function parseElement(spec: SetSpec, item: unknown): Element {
  const { key, value } = splitElement(item, spec.value !== undefined);
  return { key: keyText(unwrapKey(key), spec), value: valueText(value, spec.value) };
}

/** An element's two halves; the value is undefined in a set. */
export function splitElement(item: unknown, isMap: boolean): { readonly key: unknown; readonly value: unknown } {
  if (!isMap) return { key: item, value: undefined };
  if (!Array.isArray(item) || item.length !== 2) throw notUnderstood("element of a map", item);
  return { key: item[0], value: item[1] };
}

/** An element's key without the wrapper that carries its timeout, counter and comment. */
export function unwrapKey(key: unknown): unknown {
  if (typeof key !== "object" || key === null || !("elem" in key)) return key;
  return asObject(key.elem, "element").val;
}
