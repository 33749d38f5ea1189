import { SharedValues } from "../base/shared-values.ts";
import type { ServicePortKey } from "../model/ids.ts";
import type { Table } from "../nft/ast/ruleset.ts";
import { splitParts } from "../nft/elements.ts";
import { type Balancer, balancerName, REFUSALS } from "./chain-names.ts";
import type { DeltaTracker } from "./delta-tracker.ts";
import {
  type EmptyList,
  type EndpointList,
  isPlaceable,
  numberedValues,
  type ServicePortLists,
} from "./endpoint-list.ts";
import { type EndpointIds, endpointIds, placed } from "./endpoint-numbers.ts";
import {
  LIST_NAMES,
  type ListIds,
  type ListName,
  listId,
  memberKey,
  numberElement,
  parseId,
  WAYS,
  type Way,
} from "./list-ids.ts";
import { ENDPOINTS, FRONTEND_KINDS, type FrontendKind, kindOf, PORTS, RANGES } from "./sets.ts";
import type { SharedObjects } from "./shared-objects.ts";

/** A service port that some frontend leads to. */
interface KnownPort {
  readonly key: ServicePortKey;
  id: number;
  /** The lists of its rules. */
  wanted: ServicePortLists;
  /** How many frontends come by each way, in the order of WAYS. */
  readonly users: number[];
  /** How many of them are ranges of ports. */
  rangeUsers: number;
  /** The lists that the table has. */
  programmed: ServicePortLists;
  /** The kinds of frontends for which it has them. */
  kinds: readonly FrontendKind[];
  /** The ways without endpoints that the table has for ranges of ports. */
  empty: readonly EmptyList[];
  /** The targets of programmed lists by number, where these are not sorted. */
  orders: Orders;
  /** With session affinity, the endpoints' ids. */
  endpointIds: EndpointIds;
}

type Orders = Readonly<Partial<Record<ListName, readonly string[]>>>;

const NOT_STICKY: ServicePortLists = { isSticky: false };
const STICKY: ServicePortLists = { isSticky: true };
const SORTED: Orders = {};
const NO_IDS: EndpointIds = new Map();
const NONE_EMPTY: readonly EmptyList[] = [];

/** One verdict for all lists of a balancer. */
const verdicts = new SharedValues<string>();

/**
 * The lists of endpoints of one family's service ports: their ids, the number of each endpoint in a list, and the elements
 * that say so. A service port has its lists as long as a frontend leads there. Numbers of a list are 0 to N-1; which endpoint
 * has which is free, so that a change within a long list changes few elements. A new list is sorted.
 */
export class EndpointLists {
  readonly ids: ListIds;
  readonly #tracker: DeltaTracker;
  readonly #shared: SharedObjects;
  readonly #ports = new Map<ServicePortKey, KnownPort>();
  /** The service port of each id. */
  readonly #byId = new Map<number, ServicePortKey>();

  /** @param tracker the writer of the table, of which `shared` has the balancers' chains */
  constructor(tracker: DeltaTracker, shared: SharedObjects, ids: ListIds) {
    this.#tracker = tracker;
    this.#shared = shared;
    this.ids = ids;
  }

  /** The service port to which the id of a list or endpoint belongs. */
  ownerOf(id: number): ServicePortKey | undefined {
    const parsed = parseId(id);
    return parsed && this.#byId.get(parsed.servicePort);
  }

  /**
   * Adds a frontend that leads to a service port.
   * @returns the id of the list or external way that the frontend is to have in `lists`
   */
  add(key: ServicePortKey, lists: ServicePortLists, way: Way, kind: FrontendKind): number {
    const port = this.#ports.get(key) ?? this.#addPort(key, lists);
    this.#count(port, way, 1, kind);
    return listId(port.id, way);
  }

  /** Takes a frontend away, and with the last one the lists. */
  remove(key: ServicePortKey, way: Way, kind: FrontendKind): void {
    const port = this.#ports.get(key);
    if (port === undefined) return;
    this.#count(port, way, -1, kind);
    if (port.users.some((users) => users > 0)) return;
    this.#ports.delete(key);
    this.#byId.delete(port.id);
    this.ids.release(key);
  }

  /** Replaces the lists of a service port, if it has any; endpoints that stay keep their numbers and ids. */
  replace(key: ServicePortKey, lists: ServicePortLists): void {
    const port = this.#ports.get(key);
    if (port === undefined) return;
    if (port.wanted.isSticky !== lists.isSticky) {
      this.#clear(port);
      port.wanted = lists;
      this.#identify(port);
    }
    port.wanted = lists;
    this.#program(port);
  }

  /**
   * Gives service ports the ids that they have in another table, and to others none that it has.
   * @param frontends the keys of the frontends of each service port
   * @returns the service ports whose ids changed: the values of their frontends in `lists` are to be put again
   */
  adoptIds(
    actual: Table,
    frontends: ReadonlyMap<ServicePortKey, readonly string[]>,
  ): readonly ServicePortKey[] {
    const changed = this.ids.adopt(this.#wantedIds(actual, frontends), idsIn(actual));
    const ports = changed.flatMap((key) => this.#ports.get(key) ?? []);
    // None may be written before all are gone: one may get what another one had.
    for (const port of ports) this.#clear(port);
    for (const port of ports) {
      this.#identify(port);
      this.#program(port);
    }
    return changed;
  }

  /** Gives the endpoints of service ports the numbers and ids that they have in another table, as far as that has them. */
  adoptPlacement(actual: Table, keys: Iterable<ServicePortKey>): void {
    const ports = [...keys].flatMap((key) => this.#ports.get(key) ?? []);
    const known = ports.some(({ wanted }) => wanted.isSticky) ? endpointIdsIn(actual) : undefined;
    for (const port of ports) {
      this.#clear(port);
      this.#identify(port);
      port.endpointIds = known?.get(port.id) ?? NO_IDS;
      port.orders = ordersIn(actual, port);
      this.#program(port);
    }
  }

  /** The service port ids that frontends have in a table, if these are of the right kind and no other has them. */
  #wantedIds(
    actual: Table,
    frontends: ReadonlyMap<ServicePortKey, readonly string[]>,
  ): ReadonlyMap<ServicePortKey, number> {
    const wanted = new Map<ServicePortKey, number>();
    const claimed = new Set<number>();
    for (const [key, keys] of frontends) {
      const isSticky = this.#ports.get(key)?.wanted.isSticky;
      for (const frontend of keys) {
        const id = parseId(Number(actual.sets.get(kindOf(frontend).lists)?.elements.get(frontend) ?? 0));
        if (id === undefined || id.isSticky !== isSticky || claimed.has(id.servicePort)) continue;
        wanted.set(key, id.servicePort);
        claimed.add(id.servicePort);
        break;
      }
    }
    return wanted;
  }

  #addPort(key: ServicePortKey, wanted: ServicePortLists): KnownPort {
    const port: KnownPort = {
      key,
      id: 0,
      wanted,
      users: [0, 0, 0, 0],
      rangeUsers: 0,
      programmed: NOT_STICKY,
      kinds: PORTS_ALONE,
      empty: NONE_EMPTY,
      orders: SORTED,
      endpointIds: NO_IDS,
    };
    this.#ports.set(key, port);
    this.#identify(port);
    return port;
  }

  #identify(port: KnownPort): void {
    const id = this.ids.assign(port.key, port.wanted.isSticky);
    if (id === undefined) throw new Error(`no list id is left for ${port.key}`);
    port.id = id;
    this.#byId.set(id, port.key);
  }

  #count(port: KnownPort, way: Way, change: 1 | -1, { kind }: FrontendKind): void {
    const index = WAYS.indexOf(way);
    const users = (port.users[index] ?? 0) + change;
    port.users[index] = users;
    if (kind === "range") port.rangeUsers += change;
    const isOther = users === 0 || (users === 1 && change === 1);
    if (isOther || usedKinds(port) !== port.kinds) this.#program(port);
  }

  /** Takes everything of a service port out of the table. */
  #clear(port: KnownPort): void {
    const { wanted } = port;
    port.wanted = empty(port.programmed.isSticky);
    this.#program(port);
    port.wanted = wanted;
    this.#byId.delete(port.id);
  }

  /** Brings the table to the lists that a service port wants. */
  #program(port: KnownPort): void {
    const before = {
      lists: port.programmed,
      ids: port.endpointIds,
      orders: port.orders,
      kinds: port.kinds,
    };
    const lists = usedLists(port);
    port.programmed = lists;
    port.endpointIds = lists.isSticky ? endpointIds(targetsOf(lists), before.ids) : NO_IDS;
    port.kinds = usedKinds(port);
    this.#writeEmptyLists(port, port.kinds.includes(RANGES) ? (port.wanted.empty ?? NONE_EMPTY) : NONE_EMPTY);
    for (const name of LIST_NAMES) {
      const [from, to] = [before.lists[name], lists[name]];
      if (from === to && before.kinds === port.kinds) continue;
      const order = to === undefined ? undefined : orderOf(to, before.orders[name] ?? from?.targets);
      port.orders = withOrder(port.orders, name, order === to?.targets ? undefined : order);
      for (const kind of before.kinds.length > port.kinds.length ? before.kinds : port.kinds) {
        const written: WrittenList = {
          name,
          from: before.kinds.includes(kind) ? from : undefined,
          to: port.kinds.includes(kind) ? to : undefined,
          fromOrder: before.orders[name],
          toOrder: order,
          fromIds: before.ids,
        };
        if (written.from !== written.to) this.#writeList(port, written, kind);
      }
    }
  }

  #writeList(port: KnownPort, written: WrittenList, kind: FrontendKind): void {
    const { from, to, fromOrder, toOrder, fromIds, name } = written;
    const { isSticky } = port.programmed;
    const chain = to && balancerName(balancerOf(to, kind));
    if (to !== undefined) this.#shared.addBalancer(balancerOf(to, kind));
    const verdict = chain && verdicts.share(chain, `goto ${chain}`);
    this.#tracker.setElement(kind.balancers, String(listId(port.id, name)), verdict);
    // With session affinity, numbers lead to the ids of endpoints, which ranges share.
    if (!isSticky || kind.kind === "port") {
      const numbers = [
        from === undefined ? [] : valuesOf(port.id, from, fromOrder, fromIds),
        to === undefined ? [] : valuesOf(port.id, to, toOrder, port.endpointIds),
      ] as const;
      this.#writeNumbers(port, name, ...numbers, kind);
    }
    if (isSticky) this.#writeMembers(port, written, kind);
    if (from !== undefined) this.#shared.dropChain(balancerName(balancerOf(from, kind)));
  }

  #writeEmptyLists(port: KnownPort, empty: readonly EmptyList[]): void {
    if (empty.length + port.empty.length === 0) return;
    const key = ({ way }: EmptyList) => String(listId(port.id, way));
    const wanted = new Set(empty.map(key));
    for (const one of port.empty)
      if (!wanted.has(key(one))) this.#tracker.deleteElement(RANGES.refusals, key(one));
    for (const one of empty) this.#tracker.putElement(RANGES.refusals, key(one), REFUSALS[one.refusal]);
    port.empty = empty;
  }

  #writeNumbers(
    port: KnownPort,
    name: ListName,
    from: readonly string[],
    to: readonly string[],
    kind: FrontendKind,
  ): void {
    const { isSticky } = port.programmed;
    for (let number = 0; number < Math.max(from.length, to.length); number++) {
      const value = to[number];
      if (value === from[number]) continue;
      const { set, key } = numberElement(port.id, name, number, isSticky, kind);
      const isId = isSticky || value === undefined;
      this.#tracker.setElement(set, key, isId ? value : endpointValue(value, kind));
    }
  }

  /** With session affinity: the endpoints by their ids, apart for each list, so that no client stays where it may not be. */
  #writeMembers(
    { id, endpointIds: ids }: KnownPort,
    { name, from, to, fromIds }: WrittenList,
    kind: FrontendKind,
  ): void {
    const key = (endpoint: number | undefined) => memberKey(id + (endpoint ?? 0), name);
    const wanted = new Set(to?.targets);
    for (const target of from?.targets ?? []) {
      if (!wanted.has(target)) this.#tracker.deleteElement(kind.endpoints, key(fromIds.get(target)));
    }
    for (const target of wanted)
      this.#tracker.putElement(kind.endpoints, key(ids.get(target)), endpointValue(target, kind));
  }
}

/** A list of a service port that takes the place of another one. */
interface WrittenList {
  readonly name: ListName;
  readonly from: EndpointList | undefined;
  readonly to: EndpointList | undefined;
  readonly fromOrder: readonly string[] | undefined;
  readonly toOrder: readonly string[] | undefined;
  readonly fromIds: EndpointIds;
}

const PORTS_ALONE: readonly FrontendKind[] = [PORTS];

/** The kinds of frontends for which a service port needs its lists: those of ports also where it only has ranges. */
function usedKinds({ rangeUsers }: KnownPort): readonly FrontendKind[] {
  return rangeUsers > 0 ? FRONTEND_KINDS : PORTS_ALONE;
}

function balancerOf({ balancer }: EndpointList, { keepsPort }: FrontendKind): Balancer {
  return keepsPort ? { ...balancer, keepsPort } : balancer;
}

/** The value for an endpoint, given as `address . port`. */
function endpointValue(target: string, { keepsPort }: FrontendKind): string {
  return keepsPort ? (splitParts(target)[0] ?? "") : target;
}

/** The lists to which some frontend leads. */
function usedLists({ wanted, users }: KnownPort): ServicePortLists {
  const [cluster = 0, local = 0, externalCluster = 0, externalLocal = 0] = users;
  const isClusterUsed = cluster + externalCluster + externalLocal > 0;
  const isLocalUsed = local + externalLocal > 0;
  if (isClusterUsed && (isLocalUsed || wanted.local === undefined)) return wanted;
  const { isSticky } = wanted;
  if (isClusterUsed)
    return wanted.cluster === undefined ? empty(isSticky) : { cluster: wanted.cluster, isSticky };
  return isLocalUsed && wanted.local !== undefined ? { local: wanted.local, isSticky } : empty(isSticky);
}

function empty(isSticky: boolean): ServicePortLists {
  return isSticky ? STICKY : NOT_STICKY;
}

function targetsOf({ cluster, local }: ServicePortLists): readonly string[] {
  if (cluster === undefined || local === undefined) return (cluster ?? local)?.targets ?? [];
  return [...new Set([...cluster.targets, ...local.targets])].sort();
}

/** The targets of a list by number: those that had a number keep it, as far as that is possible. */
function orderOf(list: EndpointList, before: readonly string[] = []): readonly string[] {
  return isPlaceable(list) ? placed(before, list.targets) : list.targets;
}

function withOrder(orders: Orders, name: ListName, order: readonly string[] | undefined): Orders {
  if (orders[name] === order) return orders;
  const { [name]: _, ...others } = orders;
  return order === undefined ? others : { ...others, [name]: order };
}

/** The values at the numbers of a list: targets, or with session affinity their ids. */
function valuesOf(
  servicePortId: number,
  list: EndpointList,
  order: readonly string[] = list.targets,
  ids: EndpointIds,
): readonly string[] {
  const values =
    ids.size === 0 ? order : order.map((target) => String(servicePortId + (ids.get(target) ?? 0)));
  return numberedValues(list, values);
}

/** The ids of service ports that packets can get from a table: those to which a frontend leads. */
function idsIn({ sets }: Table): ReadonlySet<number> {
  const ids = new Set<number>();
  for (const { lists } of FRONTEND_KINDS) {
    for (const value of sets.get(lists)?.elements.values() ?? []) {
      const parsed = parseId(Number(value));
      if (parsed !== undefined) ids.add(parsed.servicePort);
    }
  }
  return ids;
}

/** The endpoints' ids in a table: service port id to target to id. */
function endpointIdsIn({ sets }: Table): ReadonlyMap<number, ReadonlyMap<string, number>> {
  const found = new Map<number, Map<string, number>>();
  for (const [key, target] of sets.get(ENDPOINTS)?.elements ?? []) {
    const id = Number.parseInt(key, 10);
    const parsed = parseId(id);
    if (parsed === undefined || !parsed.isSticky) continue;
    const ids = found.get(parsed.servicePort) ?? new Map<string, number>();
    found.set(parsed.servicePort, ids.set(target, id - parsed.servicePort));
  }
  return found;
}

/** The targets that a table has at the numbers of a service port's lists. */
function ordersIn({ sets }: Table, { id, wanted, endpointIds: ids }: KnownPort): Orders {
  const byId = new Map([...ids].map(([target, endpoint]) => [String(id + endpoint), target]));
  let orders = SORTED;
  for (const name of LIST_NAMES) {
    const order: string[] = [];
    while (true) {
      const { set, key } = numberElement(id, name, order.length, wanted.isSticky, PORTS);
      const value = sets.get(set)?.elements.get(key);
      if (value === undefined) break;
      order.push(wanted.isSticky ? (byId.get(value) ?? "") : value);
    }
    orders = withOrder(orders, name, order);
  }
  return orders;
}
