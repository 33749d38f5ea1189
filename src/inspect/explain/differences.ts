import { familyOf } from "../../model/ip.ts";
import type { Chain, Table } from "../../nft/ast/ruleset.ts";
import { diffRuleset, type ElementsDelta } from "../../nft/delta.ts";
import { verdictTarget } from "../../nft/elements.ts";
import { ruleText } from "../../nft/text/rule-text.ts";
import { elementText } from "../../nft/text/table-text.ts";
import { parseChainName } from "../../ruleset/chain-names.ts";
import { frontendKey, nodePortKey } from "../../ruleset/keys.ts";
import { parseId } from "../../ruleset/list-ids.ts";
import { isOfLists, LISTS } from "../../ruleset/sets.ts";
import type { Connection } from "./explanation.ts";

/** The most differences that are listed; more are counted. */
const MOST = 20;

/** The chains that all connections pass depend on options alone. */
const OTHER_OPTIONS = "other options than those given here (--config), or other software, make such rules";

/**
 * The differences between the kernel's table and the desired one that concern one connection's frontend, one line
 * each: its elements, the chains that they lead to, and the chains that all connections pass.
 * @param actual the kernel's table, undefined when it has none
 */
export function liveDifferences(
  connection: Connection,
  actual: Table | undefined,
  desired: Table | undefined,
): string[] {
  if (desired === undefined) return [];
  if (actual === undefined) return [`the kernel has no table ${desired.family} ${desired.name}`];
  const [delta] = diffRuleset({ [actual.family]: actual }, { [desired.family]: desired });
  if (delta === undefined) return [];
  if (delta.mode === "recreate") return ["the kernel's table has maps of other types: it must be recreated"];
  const isOwn = ownership(connection, [actual, desired]);
  const own = delta.elements.map(({ spec, deleted, added }) => ({
    spec,
    deleted: deleted.filter((key) => isOwn(spec.name, key)),
    added: added.filter(({ key }) => isOwn(spec.name, key)),
  }));
  const lines = own.flatMap((elements) => elementLines(elements, actual));
  const targets = new Set(own.flatMap(({ added }) => added.flatMap(({ value }) => verdictTarget(value) ?? [])));
  const chains = delta.writtenChains.filter(({ name }) => targets.has(name) || !isOfSomeFrontends(name));
  const all = [
    ...lines,
    ...chains.flatMap((chain) => chainLines(chain, actual.chains.get(chain.name))),
    ...(chains.some(({ name }) => !isOfSomeFrontends(name)) ? [OTHER_OPTIONS] : []),
  ];
  return all.length > MOST ? [...all.slice(0, MOST), `and ${all.length - MOST} more`] : all;
}

/** Whether an element concerns a frontend: by its key, by the address alone, or by the id of the Service port's lists. */
function ownership(
  { to, port, protocol }: Connection,
  tables: readonly Table[],
): (set: string, key: string) => boolean {
  const keys = [frontendKey(to, protocol, port), nodePortKey(familyOf(to), protocol, port)];
  const ids = new Set(
    tables.flatMap(({ sets }) =>
      keys.flatMap((key) => parseId(Number(sets.get(LISTS)?.elements.get(key) ?? 0))?.servicePort ?? []),
    ),
  );
  return (set, key) =>
    key === to ||
    keys.includes(key) ||
    (isOfLists(set) && ids.has(parseId(Number.parseInt(key, 10))?.servicePort ?? 0));
}

function elementLines({ spec, deleted, added }: ElementsDelta, actual: Table): string[] {
  const texts = (key: string, value: string) => `${spec.name} { ${elementText(spec, key, value)} }`;
  const here = actual.sets.get(spec.name)?.elements;
  return [
    ...added.map(({ key, value }) => `missing in the kernel: ${texts(key, value)}`),
    ...deleted.map((key) => `only in the kernel: ${texts(key, here?.get(key) ?? "")}`),
  ];
}

/** The rules that one side of a chain has and the other has not. */
function chainLines({ name, rules }: Chain, actual: Chain | undefined): string[] {
  if (actual === undefined) return [`the chain ${name} is missing in the kernel`];
  const [wanted, found] = [rules.map(ruleText), actual.rules.map(ruleText)];
  const lines = [
    ...missingTexts(wanted, found).map((rule) => `missing in the kernel: chain ${name}: ${rule}`),
    ...missingTexts(found, wanted).map((rule) => `only in the kernel: chain ${name}: ${rule}`),
  ];
  return lines.length > 0 ? lines : [`the chain ${name} has its rules in another order, or another hook or priority`];
}

/** The texts of a list that another lacks, each as often as it is missing. */
function missingTexts(texts: readonly string[], others: readonly string[]): string[] {
  const left = [...others];
  return texts.filter((text) => {
    const index = left.indexOf(text);
    if (index >= 0) left.splice(index, 1);
    return index < 0;
  });
}

/** Chains that some frontends have in common, or one has for itself: balancers and firewalls. */
function isOfSomeFrontends(name: string): boolean {
  const role = parseChainName(name);
  return role !== undefined && role.kind !== "static";
}
