import type { Family } from "../../base/family.ts";
import { groupBy } from "../../base/group-by.ts";
import { oncePerObject } from "../../base/once-per-object.ts";
import { moreLines } from "../../base/text.ts";
import { chainRole, FRONTEND_KINDS } from "../../features/frontends.ts";
import { FEATURES } from "../../features/registry.ts";
import { familyOf } from "../../model/ip.ts";
import type { Chain, Table } from "../../nft/ast/ruleset.ts";
import { diffRuleset, type ElementsDelta, type TableDelta, writtenChains } from "../../nft/delta.ts";
import { type Element, verdictTarget } from "../../nft/elements.ts";
import { ruleText } from "../../nft/text/rule-text.ts";
import { elementText } from "../../nft/text/table-text.ts";
import { idOfKey } from "../../ruleset/keys.ts";
import { parseId } from "../../ruleset/list-ids.ts";
import { frontendsOf, listIdOf } from "../../ruleset/programmed-frontend.ts";
import type { ExplainInput } from "./explain-input.ts";
import type { Connection } from "./explanation.ts";

/** Maximum number of differences to list. The others are counted. */
const MOST_LINES = 20;

/** Explains a difference in a chain that all connections pass: these chains depend only on options. */
const OTHER_OPTIONS = "other options than those given here (--config), or other software, make such rules";

/**
 * Lists the differences between the kernel's table and the desired one that concern one connection's
 * frontend, one line each: its elements, the chains that they lead to, and the chains that all connections
 * pass.
 */
export function liveDifferences(connection: Connection, input: ExplainInput): string[] {
  const family = familyOf(connection.to);
  const [actual, desired] = [input.live?.ruleset[family], input.state.ruleset[family]];
  if (desired === undefined) return [];
  if (actual === undefined) return [`the kernel has no table ${desired.family} ${desired.name}`];
  const difference = differenceOf(actual, desired, input);
  if (difference === undefined) return [];
  const { delta, owners } = difference;
  if (delta.mode === "recreate") return ["the kernel's table has maps of other types: it must be recreated"];
  const names = [...ownerNames(connection, [actual, desired])];
  const own = names.flatMap((name) => owners.get(name) ?? []);
  const missing = own.filter(({ isMissing }) => isMissing);
  const targets = new Set(missing.flatMap(({ element }) => verdictTarget(element.value) ?? []));
  const chains = writtenChains(delta).filter(({ name }) => targets.has(name) || !isOfSomeFrontends(name));
  const all = [
    ...own.map(elementLine),
    ...chains.flatMap((chain) => chainLines(chain, actual.chains.get(chain.name))),
    ...(chains.some(({ name }) => !isOfSomeFrontends(name)) ? [OTHER_OPTIONS] : []),
  ];
  return [...all.slice(0, MOST_LINES), ...moreLines(all.length - MOST_LINES)];
}

/**
 * Whether the kernel's table differs from the desired one. If they are equal, following one of them is
 * enough.
 */
export function differsFromDesired(actual: Table, desired: Table | undefined, input: ExplainInput): boolean {
  return desired === undefined || differenceOf(actual, desired, input) !== undefined;
}

/** An element that only one of two tables has. */
interface OtherElement extends Pick<ElementsDelta, "spec"> {
  readonly element: Element;
  /** Whether it is missing in the kernel. */
  readonly isMissing: boolean;
}

/** The differences between two tables. */
interface Difference {
  readonly delta: TableDelta;
  /**
   * The elements that differ by their owner: the frontend or address in the element's key, or the service
   * port whose list id the key begins with.
   */
  readonly owners: ReadonlyMap<string | number, readonly OtherElement[]>;
}

/** The differences of an input so far. Comparing again for each of 1,000 Services took half of the time. */
const knownOf = oncePerObject((_: ExplainInput) => new Map<Family, Difference | undefined>());

function differenceOf(actual: Table, desired: Table, input: ExplainInput): Difference | undefined {
  const { family } = desired;
  const ofFamilies = knownOf(input);
  if (!ofFamilies.has(family)) {
    const [delta] = diffRuleset({ [family]: actual }, { [family]: desired });
    const elements = delta?.elements.flatMap(({ spec, added, deleted }) => [
      ...added.map((element) => ({ spec, element, isMissing: true })),
      ...deleted.map((element) => ({ spec, element, isMissing: false })),
    ]);
    ofFamilies.set(family, delta && { delta, owners: groupBy(elements ?? [], ownerOf) });
  }
  return ofFamilies.get(family);
}

function ownerOf({ element: { key } }: OtherElement): string | number {
  const id = idOfKey(key);
  return id === undefined ? key : (parseId(id)?.servicePort ?? 0);
}

/**
 * The owners of a connection's elements: its frontends, its address, and the ids of the Service port's lists.
 */
function ownerNames(
  { to, port, protocol }: Connection,
  tables: readonly Table[],
): ReadonlySet<string | number> {
  const keys = frontendsOf(tables, to, protocol, port, FRONTEND_KINDS);
  const ids = tables.flatMap((table) =>
    keys.flatMap((key) => listIdOf(table, key, FRONTEND_KINDS)?.servicePort ?? []),
  );
  return new Set<string | number>([to, ...keys, ...ids]);
}

function elementLine({ spec, element: { key, value }, isMissing }: OtherElement): string {
  return `${isMissing ? "missing" : "only"} in the kernel: ${spec.name} { ${elementText(spec, key, value)} }`;
}

/** Lists the rules that only one of the two chains has. */
function chainLines({ name, rules }: Chain, actual: Chain | undefined): string[] {
  if (actual === undefined) return [`the chain ${name} is missing in the kernel`];
  const [wanted, found] = [rules.map(ruleText), actual.rules.map(ruleText)];
  const missing = wanted.filter((rule) => !found.includes(rule));
  const others = found.filter((rule) => !wanted.includes(rule));
  const lines = [
    ...missing.map((rule) => `missing in the kernel: chain ${name}: ${rule}`),
    ...others.map((rule) => `only in the kernel: chain ${name}: ${rule}`),
  ];
  return lines.length > 0
    ? lines
    : [`the chain ${name} has its rules in another order or number, or another hook or priority`];
}

/** Whether a chain serves only some frontends, as balancers and long source ranges do. */
function isOfSomeFrontends(name: string): boolean {
  const role = chainRole(name);
  if (role !== undefined) return role.kind !== "static";
  return FEATURES.some(({ ruleset }) => ruleset?.isChainOfPort?.(name));
}
