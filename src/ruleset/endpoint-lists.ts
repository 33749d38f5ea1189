import { SharedValues } from "../base/shared-values.ts";
import type { ServicePortKey } from "../model/ids.ts";
import type { Table } from "../nft/ast/ruleset.ts";
import { splitParts } from "../nft/elements.ts";
import { balancerName, chooserName, REFUSALS, rememberName } from "./chain-names.ts";
import { keepChain } from "./chain-roles.ts";
import type { DeltaTracker } from "./delta-tracker.ts";
import { RANDOM } from "./draws.ts";
import { areLong, type EmptyList, type EndpointList, type ServicePortLists } from "./endpoint-list.ts";
import { type EndpointIds, endpointIds, endpointIdsIn, placed } from "./endpoint-numbers.ts";
import { type FrontendKind, PORTS, PORTS_ALONE } from "./frontend-kinds.ts";
import type { FrontendRules } from "./frontend-rules.ts";
import {
  CLIENTS_OF,
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
import type { PortPart } from "./node-context.ts";
import { listIdOf, servicePortIdsIn } from "./programmed-frontend.ts";
import { AFFINITY_CHOOSERS, AFFINITY_TIMEOUTS } from "./sets.ts";
import type { SharedObjects } from "./shared-objects.ts";
import type { StaleElements } from "./stale-elements.ts";

/** A service port that at least one frontend leads to. */
interface KnownPort {
  readonly key: ServicePortKey;
  id: number;
  /** The lists that its rules want. */
  wanted: ServicePortLists;
  /** Number of frontends for each way, in the order of WAYS. */
  readonly users: number[];
  /** Number of frontends that are intervals. */
  intervalUsers: number;
  /** What is written to the desired table: the lists and parts that frontends use. */
  written: ServicePortLists;
  /** The kinds of frontends for which they are written. */
  writtenKinds: readonly FrontendKind[];
  /** The targets by number of each written list that is not sorted. */
  orders: Orders;
  /** With session affinity: the ids of endpoints. */
  endpointIds: EndpointIds;
}

interface SetElement {
  readonly set: string;
  readonly key: string;
}

type Orders = Readonly<Partial<Record<ListName, readonly string[]>>>;

const SORTED: Orders = {};
const NO_IDS: EndpointIds = new Map();

/** Shares equal verdicts, to save memory. */
const verdicts = new SharedValues<string>();

/**
 * The lists of endpoints of one family's service ports: their ids, the number of each endpoint in a list, and
 * their elements. A service port has lists while at least one frontend leads to it. A list has the numbers 0
 * to N-1. Any endpoint may have any number, so that a change of a long list changes few elements. A new list
 * is sorted. If a service port with long lists loses its last frontend, their elements are stale: they leave
 * the table later, a few at a time, and nobody gets the service port's id before.
 */
export class EndpointLists {
  readonly ids: ListIds;
  readonly #tracker: DeltaTracker;
  readonly #shared: SharedObjects;
  readonly #ports = new Map<ServicePortKey, KnownPort>();
  readonly #byId = new Map<number, ServicePortKey>();
  readonly #stale: StaleElements;
  readonly #kinds: readonly FrontendKind[];

  /**
   * @param tracker the writer of the same table as `shared`
   * @param stale those of the same table
   * @param kinds the kinds of frontends that the table may have
   */
  constructor(
    tracker: DeltaTracker,
    shared: SharedObjects,
    stale: StaleElements,
    ids: ListIds,
    kinds: readonly FrontendKind[],
  ) {
    this.#tracker = tracker;
    this.#stale = stale;
    this.#shared = shared;
    this.ids = ids;
    this.#kinds = kinds;
  }

  /** The service port that the id of a list or endpoint belongs to. */
  ownerOf(id: number): ServicePortKey | undefined {
    const parsed = parseId(id);
    return parsed && this.#byId.get(parsed.servicePort);
  }

  /**
   * Adds a frontend that leads to a service port.
   * @param lists what the service port wants if this is its first frontend; {@link EndpointLists.replace}
   * changes it later
   * @returns the id of the list or external way for the frontend's element in `lists`
   */
  add(key: ServicePortKey, lists: ServicePortLists, way: Way, kind: FrontendKind): number {
    const port = this.#ports.get(key) ?? this.#addPort(key, lists);
    this.#count(port, way, 1, kind);
    return listId(port.id, way);
  }

  /** Removes a frontend, and the lists with the last frontend: long ones leave as stale elements. */
  remove(key: ServicePortKey, way: Way, kind: FrontendKind): void {
    const port = this.#ports.get(key);
    if (port === undefined) return;
    const isLast = port.users.reduce((sum, users) => sum + users) === 1;
    const areStale = isLast && areLong(port.written);
    // `elementsOf` reads the lists now, before `#count` empties them.
    if (areStale) this.#stale.add(this.#deleting(port.id, elementsOf(port)));
    this.#count(port, way, -1, kind, areStale);
    if (!isLast) return;
    this.#ports.delete(key);
    this.#byId.delete(port.id);
    if (areStale) this.ids.detach(key);
    else this.ids.release(key);
  }

  /** Deletes the elements of stale lists, and then releases their id. */
  *#deleting(id: number, elements: Iterable<SetElement>): Generator<undefined> {
    for (const { set, key } of elements) {
      this.#tracker.deleteElement(set, key, 0);
      yield;
    }
    this.ids.releaseDetached(id);
  }

  /** Replaces the lists of a service port if it has any. Endpoints that stay keep their numbers and ids. */
  replace(key: ServicePortKey, lists: ServicePortLists): void {
    const port = this.#ports.get(key);
    if (port === undefined) return;
    const needsOtherId = port.wanted.isSticky !== lists.isSticky;
    if (needsOtherId) this.#clear(port);
    port.wanted = lists;
    if (needsOtherId) this.#assignId(port);
    this.#write(port);
  }

  /**
   * Gives service ports the ids that the kernel's table has for them. Others get ids that it does not have.
   * @param frontends those of each service port
   * @returns the service ports whose ids changed: the caller writes their frontends in `lists` again
   */
  adoptIds(
    actual: Table,
    frontends: ReadonlyMap<ServicePortKey, readonly FrontendRules[]>,
  ): readonly ServicePortKey[] {
    this.#stale.delete(Number.POSITIVE_INFINITY);
    const changed = this.ids.adopt(this.#wantedIds(actual, frontends), servicePortIdsIn(actual, this.#kinds));
    const ports = changed.flatMap((key) => this.#ports.get(key) ?? []);
    // Clear all before writing any: one may get the former id of another.
    for (const port of ports) this.#clear(port);
    for (const port of ports) {
      this.#assignId(port);
      this.#write(port);
    }
    return changed;
  }

  /** Gives the endpoints of service ports the numbers and ids that the kernel's table has for them. */
  adoptPlacement(actual: Table, keys: Iterable<ServicePortKey>): void {
    const ports = [...keys].flatMap((key) => this.#ports.get(key) ?? []);
    const idsOf = ports.some(({ wanted }) => wanted.isSticky) ? endpointIdsIn(actual) : undefined;
    for (const port of ports) {
      this.#clear(port);
      this.#assignId(port);
      port.endpointIds = idsOf?.get(port.id) ?? NO_IDS;
      port.orders = ordersIn(actual, port);
      this.#write(port);
    }
  }

  /**
   * The id that a table has for the frontends of each service port. An id does not count if another service
   * port has claimed it, or if it is sticky and the service port is not, or the other way round.
   */
  #wantedIds(
    actual: Table,
    frontends: ReadonlyMap<ServicePortKey, readonly FrontendRules[]>,
  ): ReadonlyMap<ServicePortKey, number> {
    const wanted = new Map<ServicePortKey, number>();
    const claimed = new Set<number>();
    for (const [servicePort, ofPort] of frontends) {
      const isSticky = this.#ports.get(servicePort)?.wanted.isSticky;
      for (const { key } of ofPort) {
        const id = listIdOf(actual, key, this.#kinds);
        if (id === undefined || id.isSticky !== isSticky || claimed.has(id.servicePort)) continue;
        wanted.set(servicePort, id.servicePort);
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
      intervalUsers: 0,
      written: { isSticky: false },
      writtenKinds: PORTS_ALONE,
      orders: SORTED,
      endpointIds: NO_IDS,
    };
    this.#ports.set(key, port);
    this.#assignId(port);
    return port;
  }

  #assignId(port: KnownPort): void {
    const id = this.ids.assign(port.key, port.wanted.isSticky);
    if (id === undefined) throw new Error(`no list id is left for ${port.key}`);
    port.id = id;
    this.#byId.set(id, port.key);
  }

  /**
   * Counts a frontend that came or went, and writes the lists if other ones are used now.
   * @param areStale as in `#write`
   */
  #count(port: KnownPort, way: Way, change: 1 | -1, { kind }: FrontendKind, areStale = false): void {
    const index = WAYS.indexOf(way);
    const users = (port.users[index] ?? 0) + change;
    port.users[index] = users;
    if (kind === "interval") port.intervalUsers += change;
    const isFirstOrLast = users === 0 || (users === 1 && change === 1);
    if (isFirstOrLast || this.#usedKinds(port) !== port.writtenKinds)
      this.#write(port, port.wanted, areStale);
  }

  /** Removes all elements of a service port, and its id from `#byId`: call `#assignId` afterwards. */
  #clear(port: KnownPort): void {
    this.#write(port, { isSticky: port.written.isSticky });
    this.#byId.delete(port.id);
  }

  /**
   * Writes the lists that frontends use.
   * @param wanted the lists to write, if not those of its rules
   * @param areStale whether the endpoints of earlier lists stay in the table
   */
  #write(port: KnownPort, wanted = port.wanted, areStale = false): void {
    const { written: listsBefore, writtenKinds: kindsBefore, endpointIds: idsBefore } = port;
    const lists = usedLists(wanted, port);
    port.written = lists;
    port.writtenKinds = this.#usedKinds(port);
    port.endpointIds = lists.isSticky ? endpointIds(targetsOf(lists), idsBefore) : NO_IDS;
    if (lists.empty !== listsBefore.empty) this.#writeEmptyLists(port, listsBefore.empty, lists.empty);
    if (lists.parts !== listsBefore.parts) this.#writeParts(port, listsBefore.parts, lists.parts);
    if (lists.isSticky) this.#writeAffinity(port.id, listsBefore, lists);
    // PORTS_ALONE is the beginning of #kinds, so the longer one has the kinds of both.
    const kinds = kindsBefore.length > port.writtenKinds.length ? kindsBefore : port.writtenKinds;
    for (const name of LIST_NAMES) {
      const [listBefore, listAfter] = [listsBefore[name], lists[name]];
      if (listBefore === listAfter && kindsBefore === port.writtenKinds) continue;
      const orderBefore = port.orders[name] ?? listBefore?.targets ?? [];
      const before = listBefore && { list: listBefore, order: orderBefore, ids: idsBefore };
      const order = listAfter && orderOf(listAfter, orderBefore, listBefore?.targets);
      const after = listAfter && order && { list: listAfter, order, ids: port.endpointIds };
      // `orderOf` returns the same array if it is sorted.
      port.orders = withOrder(port.orders, name, order === listAfter?.targets ? undefined : order);
      for (const kind of kinds) {
        const beforeOfKind = kindsBefore.includes(kind) ? before : undefined;
        const afterOfKind = port.writtenKinds.includes(kind) ? after : undefined;
        if (beforeOfKind?.list === afterOfKind?.list) continue;
        this.#writeBalancer(port, name, kind, afterOfKind);
        if (!areStale) this.#writeList(port, name, kind, beforeOfKind, afterOfKind);
      }
    }
  }

  /** The kinds of frontends for which to write lists: always for ports, even with intervals alone. */
  #usedKinds({ intervalUsers }: KnownPort): readonly FrontendKind[] {
    return intervalUsers > 0 ? this.#kinds : PORTS_ALONE;
  }

  #writeBalancer({ id }: KnownPort, name: ListName, kind: FrontendKind, after?: WrittenList): void {
    const verdict = after && this.#keepBalancer(after.list, kind);
    this.#tracker.setElement(kind.balancers, String(listId(id, name)), verdict);
  }

  #writeList(
    port: KnownPort,
    name: ListName,
    kind: FrontendKind,
    before: WrittenList | undefined,
    after: WrittenList | undefined,
  ): void {
    // The list before is as sticky: `replace` clears lists before session affinity changes.
    const { isSticky } = port.written;
    // With session affinity, numbers lead to ids of endpoints, which all kinds share.
    if (!isSticky || kind.kind === "port")
      this.#writeNumbers(port, name, kind, valuesOf(port.id, before), valuesOf(port.id, after));
    if (isSticky) this.#writeMembers(port.id, name, kind, before, after);
  }

  /** Adds the chain of a list's balancer, if it is new. @returns the verdict that leads there */
  #keepBalancer(list: EndpointList, kind: FrontendKind): string {
    const name = balancerName(list.balancer, kind);
    keepChain(this.#tracker, name, [RANDOM, list.balancer.method], kind);
    return verdicts.share(name, `goto ${name}`);
  }

  /** With session affinity: writes how to choose among the endpoints of lists, and how long clients stay. */
  #writeAffinity(id: number, before: ServicePortLists, after: ServicePortLists): void {
    const elements = affinityElements(id, after);
    for (const { set, key } of affinityElements(id, before))
      if (!elements.some((one) => one.set === set && one.key === key)) this.#tracker.deleteElement(set, key);
    const methods = LIST_NAMES.flatMap((name) => after[name]?.balancer.method ?? []);
    for (const { set, key, chain } of elements) {
      keepChain(this.#tracker, chain, [RANDOM, ...methods]);
      this.#tracker.setElement(set, key, verdicts.share(chain, `jump ${chain}`));
    }
  }

  #writeEmptyLists(
    { id }: KnownPort,
    before: readonly EmptyList[] = [],
    empty: readonly EmptyList[] = [],
  ): void {
    const key = ({ way }: EmptyList) => String(listId(id, way));
    const wanted = new Set(empty.map(key));
    for (const { kind, refusals } of this.#kinds) {
      if (kind !== "interval") continue;
      for (const one of before) if (!wanted.has(key(one))) this.#tracker.deleteElement(refusals, key(one));
      for (const one of empty) this.#tracker.setElement(refusals, key(one), REFUSALS[one.refusal]);
    }
  }

  #writeParts(port: KnownPort, before: readonly PortPart[] = [], wanted: readonly PortPart[] = []): void {
    for (const part of wanted) {
      const { map, chain } = part;
      this.#shared.addPart(part);
      this.#tracker.setElement(map, String(port.id), verdicts.share(chain.name, `jump ${chain.name}`));
    }
    // Packets fill the client sets of a part, which may keep the service port's id after it is gone.
    if (wanted.some(({ part }) => part.clientSets !== undefined)) this.ids.noteCountedClients(port.key);
    for (const part of before) {
      if (!wanted.some(({ map }) => map === part.map)) this.#tracker.deleteElement(part.map, String(port.id));
      this.#shared.dropPart(part);
    }
  }

  #writeNumbers(
    port: KnownPort,
    name: ListName,
    kind: FrontendKind,
    before: readonly string[],
    after: readonly string[],
  ): void {
    const { isSticky } = port.written;
    for (let number = 0; number < Math.max(before.length, after.length); number++) {
      const value = after[number];
      if (value === before[number]) continue;
      const { set, key } = numberElement(port.id, name, number, isSticky, kind);
      const written = value === undefined || isSticky ? value : endpointValue(value, kind);
      this.#tracker.setElement(set, key, written);
    }
  }

  /**
   * With session affinity: writes the endpoints by their ids. Each list has its own elements, so that a
   * client cannot stay with an endpoint that its list excludes.
   */
  #writeMembers(
    id: number,
    name: ListName,
    kind: FrontendKind,
    before: WrittenList | undefined,
    after: WrittenList | undefined,
  ): void {
    const keyOf = (target: string, ids = NO_IDS) => memberKey(endpointId(id, ids, target), name);
    const wanted = new Set(after?.list.targets);
    for (const target of before?.list.targets ?? [])
      if (!wanted.has(target)) this.#tracker.deleteElement(kind.endpoints, keyOf(target, before?.ids));
    for (const target of wanted)
      this.#tracker.setElement(kind.endpoints, keyOf(target, after?.ids), endpointValue(target, kind));
  }
}

/** The elements of the endpoints of a service port's lists, which have no slots. */
function* elementsOf({ id, written, writtenKinds, endpointIds: ids }: KnownPort): Generator<SetElement> {
  const { isSticky } = written;
  for (const name of LIST_NAMES)
    for (const [number, target] of written[name]?.targets.entries() ?? [])
      for (const kind of writtenKinds) {
        if (!isSticky || kind.kind === "port") yield numberElement(id, name, number, isSticky, kind);
        if (isSticky) yield { set: kind.endpoints, key: memberKey(endpointId(id, ids, target), name) };
      }
}

/** A list of a service port as it is written. */
interface WrittenList {
  readonly list: EndpointList;
  /** Its targets by number. */
  readonly order: readonly string[];
  /** With session affinity: the ids of endpoints. */
  readonly ids: EndpointIds;
}

/** The elements of a service port with session affinity for each list, and the chains that they lead to. */
function affinityElements(id: number, lists: ServicePortLists) {
  return LIST_NAMES.flatMap((name) => {
    const balancer = lists[name]?.balancer;
    if (balancer === undefined) return [];
    // 1 for a separate entry of this node's list, otherwise 0.
    const clientsOffset = CLIENTS_OF[balancer.bothLists ? name : "cluster"];
    const remember = rememberName(balancer.affinitySeconds, clientsOffset > 0);
    return [
      { set: AFFINITY_CHOOSERS, key: String(listId(id, name)), chain: chooserName(balancer) },
      { set: AFFINITY_TIMEOUTS, key: String(id + clientsOffset), chain: remember },
    ];
  });
}

/** The value of an element for an endpoint, given as `address . port`. */
function endpointValue(target: string, { kind }: FrontendKind): string {
  return kind === "interval" ? (splitParts(target)[0] ?? "") : target;
}

/**
 * The lists that at least one frontend leads to, and the parts if there is one: see `externalLocalRules` for
 * a way that leads to both lists.
 * @returns `wanted` itself if all of it is used
 */
function usedLists(wanted: ServicePortLists, { users, intervalUsers }: KnownPort): ServicePortLists {
  const [toCluster = 0, toLocal = 0, externalCluster = 0, externalLocal = 0] = users;
  const isClusterUsed = toCluster + externalCluster + externalLocal > 0;
  const isLocalUsed = toLocal + externalLocal > 0;
  const { isSticky, parts } = wanted;
  if (!isClusterUsed && !isLocalUsed) return { isSticky };
  const cluster = isClusterUsed ? wanted.cluster : undefined;
  const local = isLocalUsed ? wanted.local : undefined;
  const empty = intervalUsers > 0 ? wanted.empty : undefined;
  const isAllUsed = cluster === wanted.cluster && local === wanted.local && empty === wanted.empty;
  return isAllUsed ? wanted : { cluster, local, isSticky, empty, parts };
}

function targetsOf({ cluster, local }: ServicePortLists): readonly string[] {
  if (cluster === undefined || local === undefined) return (cluster ?? local)?.targets ?? [];
  return [...new Set([...cluster.targets, ...local.targets])].sort();
}

/**
 * The targets of a list by number. Targets keep their earlier numbers where possible; slots are fixed.
 * @param before the earlier targets by number
 * @param sorted the same, sorted; undefined if they were adopted
 */
function orderOf(
  { slots, targets }: EndpointList,
  before: readonly string[],
  sorted: readonly string[] | undefined,
): readonly string[] {
  return slots === undefined ? placed(before, targets, sorted) : targets;
}

function withOrder(orders: Orders, name: ListName, order: readonly string[] | undefined): Orders {
  if (orders[name] === order) return orders;
  const { [name]: _, ...others } = orders;
  return order === undefined ? others : { ...others, [name]: order };
}

/** The values at the numbers of a list: targets, or their ids with session affinity. */
function valuesOf(servicePortId: number, written: WrittenList | undefined): readonly string[] {
  if (written === undefined) return [];
  const { list, order, ids } = written;
  const values =
    ids.size === 0 ? order : order.map((target) => String(endpointId(servicePortId, ids, target)));
  // A slot is the index of a target.
  return list.slots === undefined ? values : Array.from(list.slots, (index) => values[index] as string);
}

/** The id of an endpoint. @throws if it has none: any other number would be the id of something else */
function endpointId(servicePortId: number, ids: EndpointIds, target: string): number {
  const id = ids.get(target);
  if (id === undefined) throw new Error(`the endpoint ${target} has no id`);
  return servicePortId + id;
}

/** The targets at the numbers of a service port's lists in a table. */
function ordersIn({ sets }: Table, { id, wanted, endpointIds: ids }: KnownPort): Orders {
  const byId = new Map([...ids].map(([target, endpoint]) => [String(id + endpoint), target]));
  let orders = SORTED;
  for (const name of LIST_NAMES) {
    const order: string[] = [];
    while (true) {
      const { set, key } = numberElement(id, name, order.length, wanted.isSticky, PORTS);
      const value = sets.get(set)?.elements.get(key);
      if (value === undefined) break;
      // An id that no endpoint has gives "", which is no target: `placed` skips it.
      order.push(wanted.isSticky ? (byId.get(value) ?? "") : value);
    }
    orders = withOrder(orders, name, order);
  }
  return orders;
}
