import type { AnyBaseChain, AnyChain, AnyRule, AnySet, AnyTable, TableFamily } from "../ast/any-table.ts";
import { readSet } from "./declarations.ts";
import { listedObjects } from "./parse.ts";
import { readRule } from "./rule.ts";
import { asFlags, asText, type JsonObject } from "./shape.ts";
import { hasExtension, translatedRule } from "./xt-rule.ts";

interface MutableChain extends AnyChain {
  readonly rules: AnyRule[];
  readonly texts?: string[];
}

interface MutableTable extends AnyTable {
  readonly chains: Map<string, MutableChain>;
  readonly sets: Map<string, AnySet>;
  /** The flag of a disabled table, whose base chains see no packets. */
  isDormant?: true;
}

const FAMILIES: ReadonlySet<unknown> = new Set<TableFamily>(["ip", "ip6", "inet"]);

/**
 * Reads the tables that see IP packets from a listing of any nft and any software
 * (`nft -j list table FAMILY NAME`). Rules and sets that are not understood are kept as such.
 * @param listing nft's JSON text
 * @param texts the same tables from `nft -a list table`, for the text of their rules
 * @throws AppError NFT_OUTPUT if it is no listing of nft
 */
export function anyTables(listing: string, texts = ""): AnyTable[] {
  const tables = new Map<string, MutableTable>();
  const ruleTexts = textsByHandle(texts);
  for (const { kind, body } of listedObjects(listing)) {
    const { family } = body;
    if (!FAMILIES.has(family)) continue;
    const name = asText(kind === "table" ? body.name : body.table, "table");
    const key = `${family} ${name}`;
    const table = tables.get(key) ?? {
      family: family as TableFamily,
      name,
      chains: new Map(),
      sets: new Map(),
    };
    tables.set(key, table);
    place(table, kind, body, ruleTexts);
  }
  return [...tables.values()];
}

function place(
  table: MutableTable,
  kind: string,
  body: JsonObject,
  texts: ReadonlyMap<unknown, string>,
): void {
  if (kind === "table") {
    if (asFlags(body.flags ?? [], "flags").includes("dormant")) table.isDormant = true;
  } else if (kind === "chain") {
    const name = asText(body.name, "name");
    const base = table.isDormant ? undefined : baseChain(body);
    table.chains.set(name, { name, ...(base && { base }), rules: [], ...(texts.size > 0 && { texts: [] }) });
  } else if (kind === "rule") {
    const chain = table.chains.get(asText(body.chain, "chain"));
    const text = texts.get(body.handle);
    const translated = text !== undefined && hasExtension(body.expr) ? translatedRule(text) : undefined;
    chain?.rules.push(readRule(translated ?? body.expr));
    chain?.texts?.push(text ?? JSON.stringify(body.expr));
  } else if (kind === "set" || kind === "map") {
    const name = asText(body.name, "name");
    table.sets.set(name, readableSet(name, kind, body));
  }
}

function readableSet(name: string, kind: "set" | "map", body: JsonObject): AnySet {
  try {
    return readSet(kind, body);
  } catch {
    return { spec: { name, dynamic: false }, elements: new Map(), unreadable: true };
  }
}

function baseChain({ hook, type, prio, policy }: JsonObject): AnyBaseChain | undefined {
  if (typeof hook !== "string" || typeof type !== "string") return undefined;
  return { hook, type, prio: Number(prio ?? 0), policy: policy === "drop" ? "drop" : "accept" };
}

/** `\t\tct state new jump services # handle 12`. */
function textsByHandle(text: string): ReadonlyMap<unknown, string> {
  const texts = new Map<unknown, string>();
  for (const line of text.split("\n")) {
    const [, rule, handle] = /^\s*(.*\S) # handle (\d+)$/.exec(line) ?? [];
    if (rule !== undefined) texts.set(Number(handle), rule);
  }
  return texts;
}
