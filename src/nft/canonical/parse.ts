import { AppError } from "../../base/errors.ts";
import type { Family } from "../../base/family.ts";
import type { Rule } from "../ast/json.ts";
import {
  type Chain,
  type ElementSet,
  type Flowtable,
  type Ruleset,
  TABLE_NAME,
  type Table,
  type TimeoutPolicy,
} from "../ast/ruleset.ts";
import { canonicalRule } from "./canonical-rule.ts";
import { parseBaseChain, parseFlowtable, parseSetSpec, parseTimeoutPolicy } from "./declarations.ts";
import { parseElement } from "./elements.ts";
import { asFlags, asList, asObject, asTagged, asText, type JsonObject, notUnderstood } from "./shape.ts";

/** The output of `nft -j list ...`: a list of objects such as `{"chain": {...}}`. */
export interface Listing {
  readonly objects: readonly unknown[];
}

/** Reads the JSON text that nft printed. @throws AppError NFT_OUTPUT for other text */
export function readListing(text: string): Listing {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw new AppError("NFT_OUTPUT", "nft printed something that is not JSON", {
      cause,
      evidence: { output: text.slice(0, 300) },
    });
  }
  return { objects: asList(asObject(json, "listing").nftables, "listing") };
}

/**
 * The canonical ruleset of a listing (`nft -j list table ip nft-proxy`, terse or not). Elements of
 * dynamic maps are excluded: see {@link ListedElement}.
 * @throws AppError NFT_OUTPUT that quotes the part that is not understood
 */
export function parseListing(listing: Listing): Ruleset {
  const draft: Draft = {};
  for (const object of listing.objects) {
    const [kind, body] = asTagged(object, "listed object");
    if (kind !== "metainfo") place(draft, kind, body);
  }
  return draft;
}

/** A {@link Ruleset} under construction. */
export type Draft = Partial<Record<Family, MutableTable>>;

/** A table under construction. */
export interface MutableTable extends Table {
  readonly chains: Map<string, MutableChain>;
  readonly sets: Map<string, MutableSet>;
  isDormant?: boolean;
  flowtable?: Flowtable;
  timeouts?: Map<string, TimeoutPolicy>;
}

interface MutableChain extends Chain {
  readonly rules: Rule[];
}

interface MutableSet extends ElementSet {
  readonly elements: Map<string, string>;
}

/** The family of an object that is, or is in, one of our tables; otherwise undefined. */
export function ownFamily(kind: string, object: JsonObject): Family | undefined {
  const { family } = object;
  const table = kind === "table" ? object.name : object.table;
  return table === TABLE_NAME && (family === "ip" || family === "ip6") ? family : undefined;
}

/** The table of a family in a draft. @throws AppError NFT_OUTPUT when there is none */
export function tableOf(draft: Draft, family: Family): MutableTable {
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
 * Adds one listed or written object (`{"chain": {...}}` as kind and body) to the draft. Keeps existing
 * objects, as nft's `add` does, and ignores those of other tables.
 */
export function place(draft: Draft, kind: string, body: unknown): void {
  const object = asObject(body, kind);
  const family = ownFamily(kind, object);
  if (family === undefined) return;
  if (kind === "table") {
    const table: MutableTable = draft[family] ?? {
      family,
      name: TABLE_NAME,
      chains: new Map(),
      sets: new Map(),
    };
    draft[family] = table;
    // An existing table gets the flags with which it is added.
    if (asFlags(object.flags ?? [], "flags").includes("dormant")) table.isDormant = true;
    else delete table.isDormant;
    return;
  }
  const table = tableOf(draft, family);
  if (kind === "chain") placeChain(table, object);
  else if (kind === "rule") memberOf(table.chains, object.chain).rules.push(canonicalRule(object.expr));
  else if (kind === "set" || kind === "map") placeSet(table, kind, object);
  else if (kind === "ct timeout") placeTimeouts(table, parseTimeoutPolicy(object));
  else if (kind === "element") placeElements(memberOf(table.sets, object.name), asList(object.elem, kind));
  else if (kind === "flowtable") placeFlowtable(table, parseFlowtable(object).flowtable);
  else throw notUnderstood(`object "${kind}"`, body);
}

function placeChain(table: MutableTable, object: JsonObject): void {
  const name = asText(object.name, "chain");
  if (table.chains.has(name)) return;
  const base = parseBaseChain(object);
  table.chains.set(name, { name, ...(base !== undefined && { base }), rules: [] });
}

function placeSet(table: MutableTable, kind: "set" | "map", object: JsonObject): void {
  const spec = parseSetSpec(kind, object);
  const set = table.sets.get(spec.name) ?? { spec, elements: new Map() };
  table.sets.set(spec.name, set);
  if (object.elem !== undefined) placeElements(set, asList(object.elem, "elements"));
}

/** A table of ours has one at most. */
function placeFlowtable(table: MutableTable, flowtable: Flowtable): void {
  table.flowtable ??= flowtable;
  if (table.flowtable.name !== flowtable.name) throw notUnderstood("second flow table", flowtable);
}

function placeTimeouts(table: MutableTable, policy: TimeoutPolicy): void {
  table.timeouts ??= new Map();
  if (!table.timeouts.has(policy.name)) table.timeouts.set(policy.name, policy);
}

function placeElements({ spec, elements }: MutableSet, list: readonly unknown[]): void {
  if (spec.dynamic) return;
  for (const item of list) {
    const { key, value } = parseElement(spec, item);
    elements.set(key, value);
  }
}

/** Reads our flow tables' devices (`nft -j list flowtables`), sorted. @throws AppError NFT_OUTPUT */
export function flowtableDevices(listing: Listing): Partial<Record<Family, readonly string[]>> {
  const devices: Partial<Record<Family, readonly string[]>> = {};
  for (const listed of listing.objects) {
    const [kind, body] = asTagged(listed, "listed object");
    if (kind !== "flowtable") continue;
    const object = asObject(body, kind);
    const family = ownFamily(kind, object);
    if (family !== undefined) devices[family] = parseFlowtable(object).devices;
  }
  return devices;
}
