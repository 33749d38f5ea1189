import { FAMILIES, type Family } from "../base/family.ts";
import type { ServicePortKey } from "../model/ids.ts";
import { comparePrecedence, type ServicePort } from "../model/service-port.ts";
import type { Ruleset, Table } from "../nft/ast/ruleset.ts";
import type { TableDelta } from "../nft/delta.ts";
import { balancerChain } from "./balancers.ts";
import { staticChains } from "./base-chains.ts";
import { type Balancer, balancerName, type ChainName } from "./chain-names.ts";
import { DeltaTracker } from "./delta-tracker.ts";
import { type DesiredElement, listElements } from "./endpoint-lists.ts";
import type { FirewallChain } from "./firewall.ts";
import type { FamilyContext, NodeContext } from "./node-context.ts";
import type { FrontendRules, ServicePortRules } from "./service-port-rules.ts";
import { NODEPORT_IPS, setSpecs } from "./sets.ts";

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
  /** How many service ports use each shared chain and element. */
  readonly #references = new Map<string, number>();

  constructor(context: FamilyContext) {
    this.#tracker = new DeltaTracker(context.family, setSpecs(context));
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

  /** Puts a service port's rules in place of its earlier ones. */
  put(rules: ServicePortRules): void {
    const { key } = rules.port;
    this.remove(key);
    this.#remember(key, undefined);
    this.#rules.set(key, rules);
    for (const frontend of rules.frontends) this.#addCandidate(frontend, rules);
    for (const element of rules.shared) this.#addShared(element);
  }

  /** Takes a service port out. */
  remove(key: ServicePortKey): void {
    const rules = this.#rules.get(key);
    if (rules === undefined) return;
    this.#remember(key, rules);
    this.#rules.delete(key);
    for (const frontend of rules.frontends) this.#removeCandidate(frontend, rules);
    for (const element of rules.shared) this.#removeShared(element);
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

  #addCandidate(frontend: FrontendRules, rules: ServicePortRules): void {
    const others = this.#candidates(frontend.key);
    const candidates = [...others, rules].sort((a, b) => comparePrecedence(a.port, b.port));
    this.#setCandidates(frontend.key, candidates);
    if (candidates[0] !== rules) return;
    const displaced = others[0];
    if (displaced !== undefined) this.#uninstall(frontendOf(displaced, frontend.key));
    this.#install(frontend);
  }

  #removeCandidate(frontend: FrontendRules, rules: ServicePortRules): void {
    const before = this.#candidates(frontend.key);
    const candidates = before.filter((other) => other !== rules);
    this.#setCandidates(frontend.key, candidates);
    if (before[0] !== rules) return;
    this.#uninstall(frontend);
    const successor = candidates[0];
    if (successor !== undefined) this.#install(frontendOf(successor, frontend.key));
  }

  #candidates(key: string): readonly ServicePortRules[] {
    const owner = this.#owners.get(key);
    return this.#conflicts.get(key) ?? (owner === undefined ? [] : [owner]);
  }

  #setCandidates(key: string, candidates: readonly ServicePortRules[]): void {
    const [owner] = candidates;
    if (owner === undefined) this.#owners.delete(key);
    else this.#owners.set(key, owner);
    if (candidates.length > 1) this.#conflicts.set(key, candidates);
    else this.#conflicts.delete(key);
  }

  #install(frontend: FrontendRules): void {
    for (const list of frontend.lists) this.#addBalancer(list.balancer);
    if (frontend.firewall !== undefined) this.#addFirewall(frontend.firewall);
    for (const { set, key, value } of elementsOf(frontend)) this.#tracker.putElement(set, key, value);
  }

  #uninstall(frontend: FrontendRules): void {
    for (const { set, key } of elementsOf(frontend)) this.#tracker.deleteElement(set, key);
    for (const { balancer } of frontend.lists) this.#dropChain(balancerName(balancer));
    if (frontend.firewall !== undefined) this.#dropChain(frontend.firewall.name);
  }

  #addBalancer(balancer: Balancer): void {
    const isFirst = this.#reference(`chain ${balancerName(balancer)}`, 1) === 1;
    if (isFirst) this.#tracker.putChain(balancerChain(this.table.family, balancer));
  }

  #addFirewall(chain: FirewallChain): void {
    this.#reference(`chain ${chain.name}`, 1);
    this.#tracker.putChain(chain);
  }

  #dropChain(name: ChainName): void {
    if (this.#reference(`chain ${name}`, -1) === 0) this.#tracker.deleteChain(name);
  }

  #addShared({ set, key, value }: DesiredElement): void {
    if (this.#reference(`${set} ${key}`, 1) === 1) this.#tracker.putElement(set, key, value);
  }

  #removeShared({ set, key }: DesiredElement): void {
    if (this.#reference(`${set} ${key}`, -1) === 0) this.#tracker.deleteElement(set, key);
  }

  #reference(name: string, change: 1 | -1): number {
    const count = (this.#references.get(name) ?? 0) + change;
    if (count === 0) this.#references.delete(name);
    else this.#references.set(name, count);
    return count;
  }
}

/** The ruleset of both families. */
export class RulesetState {
  readonly families: Readonly<Partial<Record<Family, FamilyState>>>;

  /** @param nodeContext one for each family that is to be programmed */
  constructor(nodeContext: NodeContext) {
    this.families = Object.fromEntries(nodeContext.map((context) => [context.family, new FamilyState(context)]));
  }

  /** The desired ruleset; live: it changes with the state. */
  get ruleset(): Ruleset {
    return Object.fromEntries(this.#states().map(({ table }) => [table.family, table]));
  }

  /** The ruleset as the kernel was last told, a copy. */
  committedRuleset(): Ruleset {
    return Object.fromEntries(this.#states().map((state) => [state.table.family, state.committedTable()]));
  }

  /** The changes that the kernel does not have yet. */
  pending(): TableDelta[] {
    return this.#states().flatMap((state) => state.pending() ?? []);
  }

  /** The kernel has everything now. */
  committed(): void {
    for (const state of this.#states()) state.committed();
  }

  /** The frontends that several service ports want. */
  conflicts(): Conflict[] {
    return this.#states().flatMap((state) => state.conflicts());
  }

  #states(): FamilyState[] {
    return FAMILIES.flatMap((family) => this.families[family] ?? []);
  }
}

function frontendOf(rules: ServicePortRules, key: string): FrontendRules {
  const frontend = rules.frontends.find((candidate) => candidate.key === key);
  if (frontend === undefined) throw new Error(`${rules.port.key} does not have the frontend ${key}`);
  return frontend;
}

function elementsOf(frontend: FrontendRules): DesiredElement[] {
  return [...frontend.elements, ...frontend.lists.flatMap((list) => listElements(frontend, list))];
}
