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
import { asFlags, asList, asObject, asTagged, asText, type JsonObject, notUnderstood } from "./shape.ts";

/** An object that nft lists: `{"chain": {...}}`. */
interface ListedObject {
  readonly kind: string;
  readonly body: JsonObject;
}

/** The objects in the output of `nft -j list ...`. @throws AppError NFT_OUTPUT for other text */
export function listedObjects(text: string): readonly ListedObject[] {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw new AppError("NFT_OUTPUT", "nft printed something that is not JSON", {
      cause,
      evidence: { output: text.slice(0, 300) },
    });
  }
  return asList(asObject(json, "listing").nftables, "listing").flatMap((object) => {
    const [kind, body] = asTagged(object, "listed object");
    return kind === "metainfo" ? [] : [{ kind, body: asObject(body, kind) }];
  });
}

/**
 * The canonical ruleset of a listing without elements (`nft -j -t list table ip nft-proxy`), which are read
 * by netlink.
 * @throws AppError NFT_OUTPUT that quotes the part that is not understood
 */
export function parseListing(text: string): Ruleset {
  const draft: Draft = {};
  for (const { kind, body } of listedObjects(text)) place(draft, kind, body);
  return draft;
}

/** A {@link Ruleset} under construction. */
export type Draft = Partial<Record<Family, MutableTable>>;

/** A table under construction. */
interface MutableTable extends Table {
  readonly chains: Map<string, Chain & { readonly rules: Rule[] }>;
  readonly sets: Map<string, ElementSet & { readonly elements: Map<string, string> }>;
  isDormant?: boolean;
  flowtable?: Flowtable;
  timeouts?: Map<string, TimeoutPolicy>;
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

/** Adds a listed object (`{"chain": {...}}` as kind and body) to the draft. Ignores those of other tables. */
export function place(draft: Draft, kind: string, object: JsonObject): void {
  const family = ownFamily(kind, object);
  if (family === undefined) return;
  if (kind === "table") {
    const isDormant = asFlags(object.flags ?? [], "flags").includes("dormant");
    const dormant = isDormant ? { isDormant } : {};
    draft[family] = { family, name: TABLE_NAME, ...dormant, chains: new Map(), sets: new Map() };
    return;
  }
  const table = tableOf(draft, family);
  if (kind === "chain") {
    const base = parseBaseChain(object);
    const name = asText(object.name, "chain");
    table.chains.set(name, { name, ...(base && { base }), rules: [] });
  } else if (kind === "rule") {
    memberOf(table.chains, object.chain).rules.push(canonicalRule(object.expr));
  } else if (kind === "set" || kind === "map") {
    const spec = parseSetSpec(kind, object);
    table.sets.set(spec.name, { spec, elements: new Map() });
  } else if (kind === "ct timeout") {
    const policy = parseTimeoutPolicy(object);
    table.timeouts ??= new Map();
    table.timeouts.set(policy.name, policy);
  } else if (kind === "flowtable") {
    const { flowtable } = parseFlowtable(object);
    table.flowtable ??= flowtable;
    // A table of ours has one at most.
    if (table.flowtable.name !== flowtable.name) throw notUnderstood("second flow table", flowtable);
  } else throw notUnderstood(`object "${kind}"`, object);
}

/** Reads our flow tables' devices (`nft -j list flowtables`), sorted. @throws AppError NFT_OUTPUT */
export function flowtableDevices(text: string): Partial<Record<Family, readonly string[]>> {
  const devices: Partial<Record<Family, readonly string[]>> = {};
  for (const { kind, body } of listedObjects(text)) {
    const family = kind === "flowtable" ? ownFamily(kind, body) : undefined;
    if (family !== undefined) devices[family] = parseFlowtable(body).devices;
  }
  return devices;
}
