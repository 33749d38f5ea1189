import type { Ruleset, SetSpec, Table } from "../../src/nft/ast/ruleset.ts";
import { splitParts } from "../../src/nft/elements.ts";
import { parseId } from "../../src/ruleset/list-ids.ts";
import {
  AFFINITY_IDS,
  CLIENT_LIMITS,
  ENDPOINTS,
  FRONTEND_KINDS,
  LISTS,
  RANGES,
  TIMEOUTS,
} from "../../src/ruleset/sets.ts";

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
 * Returns the {@link rulesetText} without the ids of service ports and endpoints, and without the numbers of
 * endpoints in lists.
 */
export function textWithoutPlacement(ruleset: Ruleset): string {
  return Object.values(ruleset).flatMap(linesWithoutPlacement).sort().join("\n");
}

const LIST_MAPS: readonly string[] = [
  ...FRONTEND_KINDS.flatMap(({ lists, balancers, endpoints }) => [lists, balancers, endpoints]),
  AFFINITY_IDS,
  RANGES.refusals,
  CLIENT_LIMITS,
  TIMEOUTS,
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
  const others = { ...table, sets: new Map([...table.sets].filter(([name]) => !LIST_MAPS.includes(name))) };
  return [
    ...tableLines(others),
    ...FRONTEND_KINDS.flatMap(({ lists, balancers, endpoints }) => [
      ...elements(lists).map(([frontend, id]) => `${lists} ${frontend} : ${label(id)}`),
      ...elements(balancers).map(([id, verdict]) => `${balancers} ${label(id)} : ${verdict}`),
      ...elements(endpoints).flatMap(([key, target]) => numbered(endpoints, key, target)),
    ]),
    ...[RANGES.refusals, CLIENT_LIMITS, TIMEOUTS].flatMap((name) =>
      elements(name).map(([id, verdict]) => `${name} ${label(id)} : ${verdict}`),
    ),
    ...elements(AFFINITY_IDS).flatMap(([key, id]) =>
      numbered(AFFINITY_IDS, key, targets.get(id) ?? `nothing (${id})`),
    ),
  ].map((line) => (line.startsWith(`${table.family} `) ? line : `${table.family} ${line}`));
}
