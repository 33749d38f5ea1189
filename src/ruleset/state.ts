import { FAMILIES, type Family } from "../model/family.ts";
import type { ServicePortKey } from "../model/ids.ts";
import { comparePrecedence, type ServicePort } from "../model/service-port.ts";
import type { TableDelta } from "../nft/delta.ts";
import { type Chain, type ElementSet, type Ruleset, TABLE_NAME, type Table } from "../nft/ruleset.ts";
import { balancerChain, balancerName } from "./balancers.ts";
import { staticChains } from "./base-chains.ts";
import type { FamilyContext } from "./context.ts";
import type { Contribution, FrontendContribution, WantedElement } from "./contribution.ts";
import { TableJournal } from "./journal.ts";
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
  readonly #journal: TableJournal;
  readonly #contributions = new Map<ServicePortKey, Contribution>();
  /** What the kernel has of the service ports that were touched since; undefined for nothing. */
  readonly #before = new Map<ServicePortKey, Contribution | undefined>();
  /** Who has a frontend. */
  readonly #owners = new Map<string, Contribution>();
  /** Who wants a frontend, best first, where several do, which is rare. */
  readonly #contested = new Map<string, readonly Contribution[]>();
  readonly #references = new Map<string, number>();

  constructor(context: FamilyContext) {
    const sets = new Map<string, ElementSet>();
    for (const spec of setSpecs(context)) sets.set(spec.name, { spec, elements: new Map() });
    this.table = { family: context.family, name: TABLE_NAME, chains: new Map(), sets };
    this.#journal = new TableJournal(this.table);
    this.setContext(context);
  }

  /** Takes over what does not come from Services. Contributions must be rendered again by the caller. */
  setContext(context: FamilyContext): void {
    for (const chain of staticChains(context)) this.#journal.putChain(chain);
    const wanted = new Set(context.nodePorts.kind === "addresses" ? context.nodePorts.addresses : []);
    const known = this.table.sets.get(NODEPORT_IPS)?.elements ?? new Map<string, string>();
    for (const address of [...known.keys()])
      if (!wanted.has(address)) this.#journal.deleteElement(NODEPORT_IPS, address);
    for (const address of [...wanted].sort()) this.#journal.putElement(NODEPORT_IPS, address, "");
  }

  /** Puts a service port's contribution in place of its earlier one. */
  put(contribution: Contribution): void {
    this.remove(contribution.port.key);
    this.#remember(contribution.port.key, undefined);
    this.#contributions.set(contribution.port.key, contribution);
    for (const frontend of contribution.frontends) this.#claim(frontend, contribution);
    for (const element of contribution.shared) this.#addShared(element);
  }

  /** Takes a service port out. */
  remove(key: ServicePortKey): void {
    const contribution = this.#contributions.get(key);
    if (contribution === undefined) return;
    this.#remember(key, contribution);
    this.#contributions.delete(key);
    for (const frontend of contribution.frontends) this.#release(frontend, contribution);
    for (const element of contribution.shared) this.#removeShared(element);
  }

  /** What a service port contributes now. */
  contribution(key: ServicePortKey): Contribution | undefined {
    return this.#contributions.get(key);
  }

  /** The service port that has a frontend, by its key: `10.96.0.10 . tcp . 53`, or `tcp . 30080`. */
  ownerOf(frontend: string): ServicePort | undefined {
    return this.#owners.get(frontend)?.port;
  }

  /** What every service port contributes now. */
  contributions(): Iterable<Contribution> {
    return this.#contributions.values();
  }

  /** The frontends that several service ports want, sorted. */
  conflicts(): Conflict[] {
    const family = this.table.family;
    return [...this.#contested]
      .map(([frontend, claimants]) => {
        const [winner, ...losers] = claimants.map(({ port }) => port) as [ServicePort, ...ServicePort[]];
        return { family, frontend, winner, losers };
      })
      .sort((a, b) => (a.frontend < b.frontend ? -1 : 1));
  }

  /** The service ports whose contributions the kernel does not have yet, sorted, with what it has instead. */
  uncommitted(): { readonly key: ServicePortKey; readonly before: Contribution | undefined }[] {
    return [...this.#before].map(([key, before]) => ({ key, before })).sort((a, b) => (a.key < b.key ? -1 : 1));
  }

  /** The table as the kernel was last told, a copy. */
  committedTable(): Table {
    return this.#journal.committedTable();
  }

  /** What the kernel does not have yet; undefined when it has everything. */
  pending(): TableDelta | undefined {
    return this.#journal.pending();
  }

  /** The kernel has everything now. */
  committed(): void {
    this.#journal.committed();
    this.#before.clear();
  }

  #remember(key: ServicePortKey, contribution: Contribution | undefined): void {
    if (!this.#before.has(key)) this.#before.set(key, contribution);
  }

  #claim(frontend: FrontendContribution, contribution: Contribution): void {
    const others = this.#claimants(frontend.key);
    const claimants = [...others, contribution].sort((a, b) => comparePrecedence(a.port, b.port));
    this.#setClaimants(frontend.key, claimants);
    if (claimants[0] !== contribution) return;
    const displaced = others[0];
    if (displaced !== undefined) this.#uninstall(frontendOf(displaced, frontend.key));
    this.#install(frontend);
  }

  #release(frontend: FrontendContribution, contribution: Contribution): void {
    const before = this.#claimants(frontend.key);
    const claimants = before.filter((other) => other !== contribution);
    this.#setClaimants(frontend.key, claimants);
    if (before[0] !== contribution) return;
    this.#uninstall(frontend);
    const heir = claimants[0];
    if (heir !== undefined) this.#install(frontendOf(heir, frontend.key));
  }

  #claimants(key: string): readonly Contribution[] {
    const owner = this.#owners.get(key);
    return this.#contested.get(key) ?? (owner === undefined ? [] : [owner]);
  }

  #setClaimants(key: string, claimants: readonly Contribution[]): void {
    const [owner] = claimants;
    if (owner === undefined) this.#owners.delete(key);
    else this.#owners.set(key, owner);
    if (claimants.length > 1) this.#contested.set(key, claimants);
    else this.#contested.delete(key);
  }

  #install(frontend: FrontendContribution): void {
    for (const balancer of frontend.balancers) {
      const name = balancerName(balancer);
      if (this.#reference(`chain ${name}`, 1) === 1) this.#journal.putChain(balancerChain(this.table.family, balancer));
    }
    if (frontend.firewall !== undefined) this.#addFirewall(frontend.firewall);
    for (const { set, key, value } of frontend.elements) this.#journal.putElement(set, key, value);
  }

  #uninstall(frontend: FrontendContribution): void {
    for (const { set, key } of frontend.elements) this.#journal.deleteElement(set, key);
    for (const balancer of frontend.balancers) this.#dropChain(balancerName(balancer));
    if (frontend.firewall !== undefined) this.#dropChain(frontend.firewall.name);
  }

  #addFirewall(chain: Chain): void {
    this.#reference(`chain ${chain.name}`, 1);
    this.#journal.putChain(chain);
  }

  #dropChain(name: string): void {
    if (this.#reference(`chain ${name}`, -1) === 0) this.#journal.deleteChain(name);
  }

  #addShared({ set, key, value }: WantedElement): void {
    if (this.#reference(`${set} ${key}`, 1) === 1) this.#journal.putElement(set, key, value);
  }

  #removeShared({ set, key }: WantedElement): void {
    if (this.#reference(`${set} ${key}`, -1) === 0) this.#journal.deleteElement(set, key);
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

  /** @param contexts one for each family that is to be programmed */
  constructor(contexts: readonly FamilyContext[]) {
    this.families = Object.fromEntries(contexts.map((context) => [context.family, new FamilyState(context)]));
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

function frontendOf(contribution: Contribution, key: string): FrontendContribution {
  const frontend = contribution.frontends.find((candidate) => candidate.key === key);
  if (frontend === undefined) throw new Error(`${contribution.port.key} does not have the frontend ${key}`);
  return frontend;
}
