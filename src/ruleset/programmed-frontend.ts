import { assertNever } from "../base/errors.ts";
import { familyOf } from "../model/ip.ts";
import type { Table } from "../nft/ast/ruleset.ts";
import { verdictTarget } from "../nft/elements.ts";
import { type Refusal, refusalOf } from "./chain-names.ts";
import { chainRole } from "./chain-roles.ts";
import { type Draw, type DrawMethod, drawText } from "./draws.ts";
import { type FrontendKind, kindOf, portEquivalent } from "./frontend-kinds.ts";
import { frontendKey, nodePortKey, parseFrontendKey, placeOfKey } from "./keys.ts";
import {
  CLIENTS_OF,
  LIST_NAMES,
  type ListName,
  listId,
  memberKey,
  numberElement,
  type ParsedId,
  parseId,
  type Way,
} from "./list-ids.ts";
import { AFFINITY_CHOOSERS, AFFINITY_TIMEOUTS } from "./sets.ts";

/** A list of endpoints, read from a table. */
export interface ProgrammedList {
  readonly draw: Draw;
  /** Time that a client keeps its endpoint, in seconds; 0 for no affinity. */
  readonly affinitySeconds: number;
  /** Endpoints as `address . port`; for an interval, only addresses. */
  readonly targets: ReadonlySet<string>;
}

/** The handling of connections to a frontend by a table. */
export interface ProgrammedFrontend {
  /** The way to the endpoints; undefined if there is none. */
  readonly way: Way | undefined;
  readonly lists: Readonly<Partial<Record<ListName, ProgrammedList>>>;
  /** How it refuses without endpoints; undefined if the table has no refusal for it. */
  readonly refusal: Refusal | undefined;
  /** Whether only some sources are allowed. */
  readonly isGuarded: boolean;
}

/**
 * Reads how an actual or desired table handles connections to a frontend; undefined if it does not.
 * @param kinds the kinds of frontends that it may have
 * @param methods the ways to draw endpoints that it may use
 */
export function programmedFrontend(
  { sets }: Table,
  key: string,
  kinds: readonly FrontendKind[],
  methods: readonly DrawMethod[],
): ProgrammedFrontend | undefined {
  const maps = kindOf(key, kinds);
  const id = listIdOf({ sets }, key, kinds);
  const refusal = refusalAt({ sets }, key, kinds);
  const isGuarded = sets.get(maps.sourceRangeLists)?.elements.has(key) ?? false;
  if (id === undefined && refusal === undefined && !isGuarded) return undefined;
  const lists = LIST_NAMES.filter((name) => leadsTo(id?.way, name)).flatMap((name) => {
    const list = id && programmedList({ sets }, id, name, maps, methods);
    return list === undefined ? [] : [[name, list] as const];
  });
  return { way: id?.way, lists: Object.fromEntries(lists), refusal, isGuarded };
}

/** How a table refuses connections to a frontend without endpoints; undefined if it does not. */
export function refusalAt(
  { sets }: Pick<Table, "sets">,
  key: string,
  kinds: readonly FrontendKind[],
): Refusal | undefined {
  const kind = kindOf(key, kinds);
  const refusals = sets.get(kind.refusals)?.elements;
  switch (kind.kind) {
    case "port":
      return refusalOf(refusals?.get(key));
    case "interval":
      return refusalOf(refusals?.get(sets.get(kind.lists)?.elements.get(key) ?? ""));
    default:
      return assertNever(kind);
  }
}

/** The list id of a frontend in a table; undefined for none. */
export function listIdOf(
  { sets }: Pick<Table, "sets">,
  key: string,
  kinds: readonly FrontendKind[],
): ParsedId | undefined {
  return parseId(Number(sets.get(kindOf(key, kinds).lists)?.elements.get(key) ?? 0));
}

/** The ids of service ports that frontends of a table lead to. */
export function servicePortIdsIn({ sets }: Table, kinds: readonly FrontendKind[]): ReadonlySet<number> {
  const ids = new Set<number>();
  for (const { lists } of kinds) {
    for (const value of sets.get(lists)?.elements.values() ?? []) {
      const parsed = parseId(Number(value));
      if (parsed !== undefined) ids.add(parsed.servicePort);
    }
  }
  return ids;
}

/**
 * The keys under which tables of one family may serve a connection: its destination as an address and as a
 * NodePort, and the intervals with its port.
 */
export function frontendsOf(
  tables: readonly Table[],
  to: string,
  protocol: string,
  port: number,
  kinds: readonly FrontendKind[],
): readonly string[] {
  const own = frontendKey(to, protocol, port);
  return [
    own,
    nodePortKey(familyOf(to), protocol, port),
    ...tables.flatMap((table) => intervalsAt(table, own, kinds)),
  ];
}

/** The keys of a table's intervals that have the port of a frontend. */
function intervalsAt({ sets }: Table, frontend: string, kinds: readonly FrontendKind[]): readonly string[] {
  const { port } = parseFrontendKey(frontend);
  const place = `${placeOfKey(frontend)} `;
  const found = new Set<string>();
  const maps = kinds.flatMap(({ kind, lists, sourceRangeLists }) =>
    kind === "interval" ? [lists, sourceRangeLists] : [],
  );
  for (const map of maps) {
    for (const key of sets.get(map)?.elements.keys() ?? []) {
      if (!key.startsWith(place)) continue;
      const { port: first, lastPort: last = first } = parseFrontendKey(key);
      if (first <= port && port <= last) found.add(key);
    }
  }
  return [...found];
}

/** Whether two tables treat connections to a frontend alike, whatever their ids and numbers. */
export function isSameFrontend(a: ProgrammedFrontend, b: ProgrammedFrontend): boolean {
  return (
    a.way === b.way &&
    a.refusal === b.refusal &&
    a.isGuarded === b.isGuarded &&
    LIST_NAMES.every((name) => isSameList(a.lists[name], b.lists[name]))
  );
}

function isSameList(a: ProgrammedList | undefined, b: ProgrammedList | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  const isSameChoice =
    drawText(a.draw) === drawText(b.draw) &&
    a.affinitySeconds === b.affinitySeconds &&
    a.targets.size === b.targets.size;
  return isSameChoice && [...a.targets].every((target) => b.targets.has(target));
}

function leadsTo(way: Way | undefined, list: ListName): boolean {
  if (way === undefined) return false;
  if (way === "external-local") return true;
  return way === list || (way === "external-cluster" && list === "cluster");
}

function programmedList(
  { sets }: Pick<Table, "sets">,
  { servicePort, isSticky }: ParsedId,
  name: ListName,
  maps: FrontendKind,
  methods: readonly DrawMethod[],
): ProgrammedList | undefined {
  const roleAt = (map: string, id: number) => {
    const verdict = sets.get(map)?.elements.get(String(id)) ?? "";
    return chainRole(portEquivalent(verdictTarget(verdict) ?? "", [maps]), methods);
  };
  const list = listId(servicePort, name);
  const balancer = roleAt(maps.balancers, list);
  const role = balancer?.kind === "affinity" ? roleAt(AFFINITY_CHOOSERS, list) : balancer;
  if (role?.kind !== "draw" && role?.kind !== "choose") return undefined;
  // A client has an entry for each list only if connections use both.
  const timeout =
    roleAt(AFFINITY_TIMEOUTS, servicePort + CLIENTS_OF[name]) ?? roleAt(AFFINITY_TIMEOUTS, servicePort);
  const targets = new Set<string>();
  for (let number = 0; number < role.draw.count; number++) {
    const { set, key } = numberElement(servicePort, name, number, isSticky, maps);
    const value = sets.get(set)?.elements.get(key);
    const target = isSticky ? sets.get(maps.endpoints)?.elements.get(memberKey(Number(value), name)) : value;
    if (target !== undefined) targets.add(target);
  }
  const affinitySeconds = isSticky && timeout?.kind === "remember" ? timeout.seconds : 0;
  return { draw: role.draw, affinitySeconds, targets };
}
