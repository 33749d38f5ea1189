import { FAMILIES, type Family } from "../base/family.ts";
import type { ServicePortKey } from "../model/ids.ts";
import { comparePrecedence, type ServicePort } from "../model/service-port.ts";
import { type Chain, type ElementSet, type Ruleset, TABLE_NAME, type Table } from "../nft/ast/ruleset.ts";
import type { TableDelta } from "../nft/delta.ts";
import { balancerChain, balancerName } from "./balancers.ts";
import { staticChains } from "./base-chains.ts";
import { DeltaTracker } from "./delta-tracker.ts";
import type { FamilyContext, NodeContext } from "./node-context.ts";
import type { DesiredElement, FrontendRules, ServicePortRules } from "./service-port-rules.ts";
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
 * The ruleset of one family, as the contributions put into it make it, and what of it the kernel does not have
 * yet. What it holds depends on the contributions alone, not on their history.
 */
export class FamilyState {
  readonly table: Table;
  readonly #tracker: DeltaTracker;
  readonly #contributions = new Map<ServicePortKey, ServicePortRules>();
  /** What the kernel has of the service ports that were touched since; undefined for nothing. */
  readonly #before = new Map<ServicePortKey, ServicePortRules | undefined>();
  /** Who has a frontend. */
  readonly #owners = new Map<string, ServicePortRules>();
  /** Who wants a frontend, best first, where several do, which is rare. */
  readonly #contested = new Map<string, readonly ServicePortRules[]>();
  readonly #references = new Map<string, number>();

  constructor(context: FamilyContext) {
    const sets = new Map<string, ElementSet>();
    for (const spec of setSpecs(context)) sets.set(spec.name, { spec, elements: new Map() });
    this.table = { family: context.family, name: TABLE_NAME, chains: new Map(), sets };
    this.#tracker = new DeltaTracker(this.table);
    this.setContext(context);
  }

  /** Takes over what does not come from Services. Contributions must be rendered again by the caller. */
  setContext(context: FamilyContext): void {
    for (const chain of staticChains(context)) this.#tracker.putChain(chain);
    const wanted = new Set(context.nodePorts.kind === "addresses" ? context.nodePorts.addresses : []);
    const known = this.table.sets.get(NODEPORT_IPS)?.elements ?? new Map<string, string>();
    for (const address of [...known.keys()])
      if (!wanted.has(address)) this.#tracker.deleteElement(NODEPORT_IPS, address);
    for (const address of [...wanted].sort()) this.#tracker.putElement(NODEPORT_IPS, address, "");
  }

  /** Puts a service port's servicePortRules in place of its earlier one. */
  put(servicePortRules: ServicePortRules): void {
    this.remove(servicePortRules.port.key);
    this.#remember(servicePortRules.port.key, undefined);
    this.#contributions.set(servicePortRules.port.key, servicePortRules);
    for (const frontend of servicePortRules.frontends) this.#claim(frontend, servicePortRules);
    for (const element of servicePortRules.shared) this.#addShared(element);
  }

  /** Takes a service port out. */
  remove(key: ServicePortKey): void {
    const servicePortRules = this.#contributions.get(key);
    if (servicePortRules === undefined) return;
    this.#remember(key, servicePortRules);
    this.#contributions.delete(key);
    for (const frontend of servicePortRules.frontends) this.#release(frontend, servicePortRules);
    for (const element of servicePortRules.shared) this.#removeShared(element);
  }

  /** What a service port contributes now. */
  servicePortRules(key: ServicePortKey): ServicePortRules | undefined {
    return this.#contributions.get(key);
  }

  /** The service port that has a frontend, by its key: `10.96.0.10 . tcp . 53`, or `tcp . 30080`. */
  ownerOf(frontend: string): ServicePort | undefined {
    return this.#owners.get(frontend)?.port;
  }

  /** What every service port contributes now. */
  contributions(): Iterable<ServicePortRules> {
    return this.#contributions.values();
  }

  /** The frontends that several service ports want, sorted. */
  conflicts(): Conflict[] {
    const family = this.table.family;
    return [...this.#contested]
      .map(([frontend, candidates]) => {
        const [winner, ...losers] = candidates.map(({ port }) => port) as [ServicePort, ...ServicePort[]];
        return { family, frontend, winner, losers };
      })
      .sort((a, b) => (a.frontend < b.frontend ? -1 : 1));
  }

  /** The service ports whose contributions the kernel does not have yet, sorted, with what it has instead. */
  uncommitted(): { readonly key: ServicePortKey; readonly before: ServicePortRules | undefined }[] {
    return [...this.#before].map(([key, before]) => ({ key, before })).sort((a, b) => (a.key < b.key ? -1 : 1));
  }

  /** The table as the kernel was last told, a copy. */
  committedTable(): Table {
    return this.#tracker.committedTable();
  }

  /** What the kernel does not have yet; undefined when it has everything. */
  pending(): TableDelta | undefined {
    return this.#tracker.pending();
  }

  /** The kernel has everything now. */
  committed(): void {
    this.#tracker.committed();
    this.#before.clear();
  }

  #remember(key: ServicePortKey, servicePortRules: ServicePortRules | undefined): void {
    if (!this.#before.has(key)) this.#before.set(key, servicePortRules);
  }

  #claim(frontend: FrontendRules, servicePortRules: ServicePortRules): void {
    const others = this.#candidates(frontend.key);
    const candidates = [...others, servicePortRules].sort((a, b) => comparePrecedence(a.port, b.port));
    this.#setClaimants(frontend.key, candidates);
    if (candidates[0] !== servicePortRules) return;
    const displaced = others[0];
    if (displaced !== undefined) this.#uninstall(frontendOf(displaced, frontend.key));
    this.#install(frontend);
  }

  #release(frontend: FrontendRules, servicePortRules: ServicePortRules): void {
    const before = this.#candidates(frontend.key);
    const candidates = before.filter((other) => other !== servicePortRules);
    this.#setClaimants(frontend.key, candidates);
    if (before[0] !== servicePortRules) return;
    this.#uninstall(frontend);
    const successor = candidates[0];
    if (successor !== undefined) this.#install(frontendOf(successor, frontend.key));
  }

  #candidates(key: string): readonly ServicePortRules[] {
    const owner = this.#owners.get(key);
    return this.#contested.get(key) ?? (owner === undefined ? [] : [owner]);
  }

  #setClaimants(key: string, candidates: readonly ServicePortRules[]): void {
    const [owner] = candidates;
    if (owner === undefined) this.#owners.delete(key);
    else this.#owners.set(key, owner);
    if (candidates.length > 1) this.#contested.set(key, candidates);
    else this.#contested.delete(key);
  }

  #install(frontend: FrontendRules): void {
    for (const balancer of frontend.balancers) {
      const name = balancerName(balancer);
      if (this.#reference(`chain ${name}`, 1) === 1) this.#tracker.putChain(balancerChain(this.table.family, balancer));
    }
    if (frontend.firewall !== undefined) this.#addFirewall(frontend.firewall);
    for (const { set, key, value } of frontend.elements) this.#tracker.putElement(set, key, value);
  }

  #uninstall(frontend: FrontendRules): void {
    for (const { set, key } of frontend.elements) this.#tracker.deleteElement(set, key);
    for (const balancer of frontend.balancers) this.#dropChain(balancerName(balancer));
    if (frontend.firewall !== undefined) this.#dropChain(frontend.firewall.name);
  }

  #addFirewall(chain: Chain): void {
    this.#reference(`chain ${chain.name}`, 1);
    this.#tracker.putChain(chain);
  }

  #dropChain(name: string): void {
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

  /** What the kernel does not have yet. */
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

function frontendOf(servicePortRules: ServicePortRules, key: string): FrontendRules {
  const frontend = servicePortRules.frontends.find((candidate) => candidate.key === key);
  if (frontend === undefined) throw new Error(`${servicePortRules.port.key} does not have the frontend ${key}`);
  return frontend;
}
