import type { Family } from "../base/family.ts";
import type { ServicePortKey } from "../model/ids.ts";
import { comparePrecedenceFor, type ServicePort } from "../model/service-port.ts";
import type { Table } from "../nft/ast/ruleset.ts";
import type { TableDelta } from "../nft/delta.ts";
import { splitParts } from "../nft/elements.ts";
import { balancerName } from "./chain-names.ts";
import { DeltaTracker } from "./delta-tracker.ts";
import type { DesiredElement } from "./endpoint-lists/endpoint-lists.ts";
import { ListPlacements } from "./endpoint-lists/list-placements.ts";
import type { FamilyContext } from "./node-context.ts";
import type { FrontendRules, ServicePortRules } from "./service-port-rules.ts";
import { NODEPORT_IPS, setSpecs, VANISHED } from "./sets.ts";
import { SharedObjects } from "./shared-objects.ts";
import { staticChains } from "./static-chains.ts";

/** A frontend that more than one service port wants. */
export interface Conflict {
  readonly family: Family;
  /** `10.96.0.10 . tcp . 53`, or `tcp . 30080` for a NodePort. */
  readonly frontend: string;
  readonly winner: ServicePort;
  /** In the order in which they would take over. */
  readonly losers: readonly ServicePort[];
}

/**
 * The desired ruleset of one family, made from the rules of all service ports, and the part of it that the kernel
 * does not have yet. Its content depends on these rules alone, not on their history.
 */
export class FamilyState {
  readonly #tracker: DeltaTracker;
  readonly #rules = new Map<ServicePortKey, ServicePortRules>();
  /** The committed rules of each service port that changed since the last commit; undefined for none. */
  readonly #before = new Map<ServicePortKey, ServicePortRules | undefined>();
  /** The service port that each frontend belongs to. */
  readonly #owners = new Map<string, ServicePortRules>();
  /** The candidates for each frontend that more than one service port wants (rare), best first. */
  readonly #conflicts = new Map<string, readonly ServicePortRules[]>();
  readonly #placements: ListPlacements;
  readonly #shared: SharedObjects;

  constructor(context: FamilyContext) {
    this.#tracker = new DeltaTracker(context.family, setSpecs(context));
    this.#placements = new ListPlacements(this.#tracker);
    this.#shared = new SharedObjects(this.#tracker);
    this.setContext(context);
  }

  /** The desired table; live: it changes with the state. */
  get table(): Table {
    return this.#tracker.table;
  }

  /** Replaces everything that does not come from Services. The caller renders all service ports again. */
  setContext(context: FamilyContext): void {
    for (const chain of staticChains(context)) this.#tracker.putChain(chain);
    const wanted = new Set(context.nodePorts.kind === "addresses" ? context.nodePorts.addresses : []);
    const known = this.table.sets.get(NODEPORT_IPS)?.elements ?? new Map<string, string>();
    for (const address of [...known.keys()])
      if (!wanted.has(address)) this.#tracker.deleteElement(NODEPORT_IPS, address);
    for (const address of [...wanted].sort()) this.#tracker.putElement(NODEPORT_IPS, address, "");
  }

  /**
   * Replaces the endpoints to which connections are reset; nothing where that is off.
   * @param targets `address . port`
   */
  setVanished(targets: ReadonlySet<string>): void {
    const known = this.table.sets.get(VANISHED)?.elements;
    if (known === undefined) return;
    for (const target of [...known.keys()]) if (!targets.has(target)) this.#tracker.deleteElement(VANISHED, target);
    for (const target of targets) this.#tracker.putElement(VANISHED, target, "");
  }

  /** Puts a service port's rules in place of its earlier ones. */
  put(rules: ServicePortRules): void {
    const { key } = rules.port;
    const before = this.#rules.get(key);
    this.#remember(key, before);
    this.#rules.set(key, rules);
    for (const element of rules.shared) this.#shared.addElement(element);
    const frontends = new Set(rules.frontends.map((frontend) => frontend.key));
    for (const frontend of frontends) this.#setCandidates(frontend, [...this.#candidates(frontend, before), rules]);
    if (before !== undefined) this.#release(before, frontends);
  }

  /** Takes a service port out. */
  remove(key: ServicePortKey): void {
    const rules = this.#rules.get(key);
    if (rules === undefined) return;
    this.#remember(key, rules);
    this.#rules.delete(key);
    this.#release(rules, new Set());
  }

  /** The rules of a service port; undefined when there are none. */
  servicePortRules(key: ServicePortKey): ServicePortRules | undefined {
    return this.#rules.get(key);
  }

  /** The service port that has a frontend, by its key: `10.96.0.10 . tcp . 53`, or `tcp . 30080`. */
  ownerOf(frontend: string): ServicePort | undefined {
    return this.#owners.get(frontend)?.port;
  }

  /** The rules of every service port. */
  allServicePortRules(): Iterable<ServicePortRules> {
    return this.#rules.values();
  }

  /** The frontends that several service ports want, sorted. */
  conflicts(): Conflict[] {
    const family = this.table.family;
    return [...this.#conflicts]
      .map(([frontend, candidates]) => {
        const [winner, ...losers] = candidates.map(({ port }) => port) as [ServicePort, ...ServicePort[]];
        return { family, frontend, winner, losers };
      })
      .sort((a, b) => (a.frontend < b.frontend ? -1 : 1));
  }

  /** The service ports whose rules the kernel does not have yet, sorted, with the rules that it has instead. */
  uncommitted(): { readonly key: ServicePortKey; readonly before: ServicePortRules | undefined }[] {
    return [...this.#before].map(([key, before]) => ({ key, before })).sort((a, b) => (a.key < b.key ? -1 : 1));
  }

  /** The table as the kernel was last told, a copy. */
  committedTable(): Table {
    return this.#tracker.committedTable();
  }

  /**
   * Gives endpoints the indexes that they have in another table, where that needs fewer changes to it.
   * @param frontends the keys of those to look at
   */
  adoptPlacement(actual: Table, frontends: Iterable<string>): void {
    for (const key of frontends) {
      const owner = this.#owners.get(key);
      if (owner !== undefined) this.#placements.adopt(frontendOf(owner, key), actual);
    }
  }

  /** The changes that the kernel does not have yet; undefined when it has everything. */
  pending(): TableDelta | undefined {
    return this.#tracker.pending();
  }

  /** The kernel has everything now. */
  committed(): void {
    this.#tracker.committed();
    this.#before.clear();
  }

  #remember(key: ServicePortKey, rules: ServicePortRules | undefined): void {
    if (!this.#before.has(key)) this.#before.set(key, rules);
  }

  /** Takes rules out of all their frontends but those to keep. */
  #release(rules: ServicePortRules, kept: ReadonlySet<string>): void {
    for (const { key } of rules.frontends) {
      if (!kept.has(key)) this.#setCandidates(key, this.#candidates(key, rules));
    }
    for (const element of rules.shared) this.#shared.dropElement(element);
  }

  /** The rules that want a frontend, without some. */
  #candidates(key: string, without: ServicePortRules | undefined): readonly ServicePortRules[] {
    const owner = this.#owners.get(key);
    const all = this.#conflicts.get(key) ?? (owner === undefined ? [] : [owner]);
    return all.filter((one) => one !== without);
  }

  #setCandidates(key: string, unsorted: readonly ServicePortRules[]): void {
    const candidates = unsorted.length < 2 ? unsorted : byPrecedence(key, unsorted);
    const before = this.#owners.get(key);
    const [after] = candidates;
    if (after === undefined) this.#owners.delete(key);
    else this.#owners.set(key, after);
    if (candidates.length > 1) this.#conflicts.set(key, candidates);
    else this.#conflicts.delete(key);
    if (before !== after) this.#replace(before && frontendOf(before, key), after && frontendOf(after, key));
  }

  /** Replaces the rules of a frontend; endpoints that stay keep their indexes. */
  #replace(before: FrontendRules | undefined, after: FrontendRules | undefined): void {
    for (const { balancer } of after?.lists ?? []) this.#shared.addBalancer(balancer);
    if (after?.firewall !== undefined) this.#shared.addFirewall(after.firewall);
    this.#replaceElements(before?.elements ?? [], after?.elements ?? []);
    this.#placements.replace(before, after);
    for (const { balancer } of before?.lists ?? []) this.#shared.dropChain(balancerName(balancer));
    if (before?.firewall !== undefined) this.#shared.dropChain(before.firewall.name);
  }

  #replaceElements(before: readonly DesiredElement[], after: readonly DesiredElement[]): void {
    for (const { set, key } of before) {
      if (!after.some((element) => element.set === set && element.key === key)) this.#tracker.deleteElement(set, key);
    }
    for (const { set, key, value } of after) this.#tracker.putElement(set, key, value);
  }
}

/** Sorts the candidates for a frontend: the one that has it first. */
function byPrecedence(key: string, candidates: readonly ServicePortRules[]): ServicePortRules[] {
  const [address = ""] = splitParts(key);
  return [...candidates].sort((a, b) => comparePrecedenceFor(address, a.port, b.port));
}

function frontendOf(rules: ServicePortRules, key: string): FrontendRules {
  const frontend = rules.frontends.find((candidate) => candidate.key === key);
  if (frontend === undefined) throw new Error(`${rules.port.key} does not have the frontend ${key}`);
  return frontend;
}
