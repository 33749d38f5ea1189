import { addToGroup } from "../../src/base/group-by.ts";
import { chainRole, FRONTEND_KINDS } from "../../src/features/frontends.ts";
import { RANGES } from "../../src/features/port-ranges/rules.ts";
import type { Rule } from "../../src/nft/ast/json.ts";
import type { Ruleset, SetSpec, Table } from "../../src/nft/ast/ruleset.ts";
import { splitParts, verdictTarget } from "../../src/nft/elements.ts";
import { parseId } from "../../src/ruleset/list-ids.ts";
import {
  AFFINITY_CHOOSERS,
  AFFINITY_IDS,
  AFFINITY_TIMEOUTS,
  ENDPOINTS,
  LISTS,
  SOURCE_RANGES,
} from "../../src/ruleset/sets.ts";
import { ALLOWS_ALL, listIdentity } from "../../src/ruleset/source-ranges.ts";

/**
 * Returns a ruleset as text that does not depend on order: one line for each chain, set and element, sorted.
 */
export function rulesetText(ruleset: Ruleset): string {
  return Object.values(ruleset).flatMap(tableLines).sort().join("\n");
}

function tableLines(table: Table): string[] {
  const chains = [...table.chains.values()].map(
    ({ name, base, rules }) => `chain ${name} ${JSON.stringify([base, rules])}`,
  );
  const sets = [...table.sets.values()].flatMap(({ spec, elements }) => [
    `set ${spec.name} ${specText(spec)}`,
    ...[...elements].map(([key, value]) => `set ${spec.name} ${key} : ${value}`),
  ]);
  const timeouts = [...(table.timeouts?.values() ?? [])].map(
    (policy) => `timeouts ${JSON.stringify(policy)}`,
  );
  return [...timeouts, ...chains, ...sets].map((line) => `${table.family} ${line}`);
}

function specText({ key, value, dynamic, untimed, size, timeout, counter, interval }: SetSpec): string {
  return JSON.stringify({ key, value, dynamic, untimed, size, timeout, counter, interval });
}

/**
 * Returns the {@link rulesetText} without what depends on the past of the table: the ids of service ports and
 * endpoints, the numbers of endpoints in lists and of lists of source ranges, and chains that the table keeps
 * although nothing leads to them.
 */
export function textWithoutPlacement(ruleset: Ruleset): string {
  return Object.values(ruleset).flatMap(linesWithoutPlacement).sort().join("\n");
}

/** Maps from the id of a list to a verdict. */
const VERDICTS_OF_LISTS: readonly string[] = [
  ...FRONTEND_KINDS.map(({ balancers }) => balancers),
  AFFINITY_CHOOSERS,
  AFFINITY_TIMEOUTS,
  RANGES.refusals,
  "client-limits",
  "connection-timeouts",
];

/** Maps to the number of a list of source ranges. */
const TO_SOURCE_RANGES: readonly string[] = [
  ...FRONTEND_KINDS.map(({ sourceRangeLists }) => sourceRangeLists),
  "ping-source-range-lists",
];

/** Sets whose elements are written without ids and numbers. */
const PLACED: readonly string[] = [
  ...FRONTEND_KINDS.flatMap(({ lists, endpoints }) => [lists, endpoints]),
  AFFINITY_IDS,
  ...VERDICTS_OF_LISTS,
  ...TO_SOURCE_RANGES,
  SOURCE_RANGES,
];

function linesWithoutPlacement(table: Table): string[] {
  const elements = (name: string) => [...(table.sets.get(name)?.elements ?? [])];
  const labels = new Map<number, string>();
  for (const [frontend, id] of [...elements(LISTS).sort(), ...elements(RANGES.lists).sort()]) {
    const { servicePort = 0 } = parseId(Number(id)) ?? {};
    if (!labels.has(servicePort)) labels.set(servicePort, frontend);
  }
  const label = (id: string | undefined) => {
    const { servicePort = 0, way = "endpoint" } = parseId(Number(id)) ?? {};
    return `list of ${labels.get(servicePort) ?? `nobody (${id})`}, ${way}`;
  };
  const targets = new Map(elements(ENDPOINTS).map(([key, target]) => [splitParts(key)[0], target]));
  const numbered = (name: string, key: string, value: string): string[] => {
    const [id, number] = splitParts(key);
    const isMember = parseId(Number(id))?.way === undefined;
    return isMember
      ? [`${name} ${label(id)} . ${number} : ${value}`]
      : [`${name} ${label(id)} . ${number}`, `${name} ${label(id)} : ${value}`];
  };
  const sets = new Map(
    [...table.sets].map(([name, set]) => [
      name,
      PLACED.includes(name) ? { ...set, elements: new Map() } : set,
    ]),
  );
  return [
    ...tableLines({ ...table, chains: reachedChains(table), sets }),
    ...FRONTEND_KINDS.flatMap(({ lists, endpoints }) => [
      ...elements(lists).map(([frontend, id]) => `${lists} ${frontend} : ${label(id)}`),
      ...elements(endpoints).flatMap(([key, target]) => numbered(endpoints, key, target)),
    ]),
    ...VERDICTS_OF_LISTS.flatMap((name) =>
      elements(name).map(([id, verdict]) => `${name} ${label(id)} : ${verdict}`),
    ),
    ...elements(AFFINITY_IDS).flatMap(([key, id]) =>
      numbered(AFFINITY_IDS, key, targets.get(id) ?? `nothing (${id})`),
    ),
    ...sourceRangesLines(elements),
  ].map((line) => (line.startsWith(`${table.family} `) ? line : `${table.family} ${line}`));
}

/** Names lists of source ranges by their content. */
function sourceRangesLines(elements: (set: string) => (readonly [string, string])[]): string[] {
  const lists = new Map<string, string[]>();
  for (const [key] of elements(SOURCE_RANGES)) {
    const [address = "", number = "", length = ""] = splitParts(key);
    addToGroup(lists, number, `${address}/${length}`);
  }
  const names = new Map([...lists].map(([number, prefixes]) => [number, listIdentity(prefixes)]));
  names.set(String(ALLOWS_ALL), "all");
  return [
    ...[...lists].flatMap(([number, prefixes]) =>
      prefixes.map((prefix) => `${SOURCE_RANGES} ${names.get(number)} . ${prefix}`),
    ),
    ...TO_SOURCE_RANGES.flatMap((set) =>
      elements(set).map(([key, number]) => `${set} ${key} : ${names.get(number) ?? `nothing (${number})`}`),
    ),
  ];
}

const KEPT: readonly (string | undefined)[] = ["draw", "affinity", "choose", "remember"];

/** Whether a chain stays in its table when nothing leads to it any longer. */
export function isKept(chain: string): boolean {
  return KEPT.includes(chainRole(chain)?.kind);
}

/** The chains of a table without those that are only kept. */
function reachedChains({ chains, sets }: Table): Table["chains"] {
  const reached = new Set([...chains.keys()].filter((name) => !isKept(name)));
  for (const { elements } of sets.values())
    for (const verdict of elements.values()) reached.add(verdictTarget(verdict) ?? "");
  // The loop goes on to names that it adds.
  for (const name of reached)
    for (const target of targetsOf(chains.get(name)?.rules ?? [])) reached.add(target);
  return new Map([...chains].filter(([name]) => reached.has(name)));
}

function targetsOf(rules: readonly Rule[]): readonly string[] {
  return rules.flat().flatMap((statement) => {
    if ("goto" in statement) return [statement.goto.target];
    return "jump" in statement ? [statement.jump.target] : [];
  });
}
