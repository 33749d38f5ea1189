import type { Table } from "../../nft/ast/ruleset.ts";
import { diffRuleset, type ElementsDelta } from "../../nft/delta.ts";
import { joinParts, verdictTarget } from "../../nft/elements.ts";
import { elementText } from "../../nft/text/table-text.ts";
import { parseChainName } from "../../ruleset/chain-names.ts";
import type { Connection } from "./explanation.ts";

/** More would not help anybody. */
const MOST = 20;

/** Chains that are there for every Service are made from options alone. */
const OTHER_OPTIONS = "other options make such rules: give those of the daemon (--config)";

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
  const own = delta.elements.map((elements) => ownElements(elements, connection));
  const lines = own.flatMap((elements) => elementLines(elements, actual));
  const targets = new Set(own.flatMap(({ added }) => added.flatMap(({ value }) => verdictTarget(value) ?? [])));
  const chains = delta.writtenChains.filter(({ name }) => targets.has(name) || !isOfSomeFrontends(name));
  const all = [
    ...lines,
    ...chains.map(({ name }) =>
      actual.chains.has(name) ? `the chain ${name} has other rules` : `the chain ${name} is missing`,
    ),
    ...(chains.some(({ name }) => !isOfSomeFrontends(name)) ? [OTHER_OPTIONS] : []),
  ];
  return all.length > MOST ? [...all.slice(0, MOST), `and ${all.length - MOST} more`] : all;
}

/** Keys begin with the frontend, a cluster IP's is the address alone; a chain's name comes with a value. */
function ownElements({ spec, deleted, added }: ElementsDelta, { to, port, protocol }: Connection): ElementsDelta {
  const keys = [joinParts(to, protocol, port), joinParts(protocol, port)];
  const isOwn = (key: string) => key === to || keys.some((own) => key === own || key.startsWith(joinParts(own, "")));
  return { spec, deleted: deleted.filter(isOwn), added: added.filter(({ key }) => isOwn(key)) };
}

function elementLines({ spec, deleted, added }: ElementsDelta, actual: Table): string[] {
  const texts = (key: string, value: string) => `${spec.name} { ${elementText(spec, key, value)} }`;
  const here = actual.sets.get(spec.name)?.elements;
  return [
    ...added.map(({ key, value }) => `missing in the kernel: ${texts(key, value)}`),
    ...deleted.map((key) => `only in the kernel: ${texts(key, here?.get(key) ?? "")}`),
  ];
}

/** Chains that some frontends have in common, or one has for itself: balancers and firewalls. */
function isOfSomeFrontends(name: string): boolean {
  const role = parseChainName(name);
  return role !== undefined && role.kind !== "static";
}
