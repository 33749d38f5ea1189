import type { ServicePortKey } from "../model/ids.ts";
import type { DeltaTracker } from "./delta-tracker.ts";
import { type FamilyContext, isInTable, type RulesetPart } from "./node-context.ts";
import type { ServicePortRules } from "./service-port-rules.ts";
import { SOURCE_RANGES_PART, sourceRangesSpecs } from "./set-specs.ts";
import { staticChains } from "./static-chains.ts";

/** A part of the table that service ports may need. */
interface PortsPart {
  readonly name: string;
  /** Undefined for source ranges. */
  readonly feature: RulesetPart | undefined;
  /** The service ports that need it. */
  readonly users: Set<ServicePortKey>;
}

/**
 * The sets and chains that a table has only while service ports or features need them, and the static chains,
 * whose rules depend on these parts.
 */
export class OptionalParts {
  readonly #tracker: DeltaTracker;
  #context: FamilyContext;
  readonly #inTable = new Set<string>();
  /** The parts that service ports may need: one without frontends may need some, too. */
  readonly #ofPorts: readonly PortsPart[];
  /** The names of the static chains in the table. */
  #chains: readonly string[] = [];

  /** @param tracker the writer of the table */
  constructor(tracker: DeltaTracker, context: FamilyContext) {
    this.#tracker = tracker;
    this.#context = context;
    const ofPorts = context.features.filter(
      ({ ownSet, isAlways }) => ownSet === undefined && isAlways === undefined,
    );
    this.#ofPorts = [undefined, ...ofPorts].map((feature) => {
      return { name: feature?.name ?? SOURCE_RANGES_PART, feature, users: new Set() };
    });
  }

  setContext(context: FamilyContext): void {
    this.#context = context;
    this.#putStaticChains();
  }

  /** Whether the table has what a feature adds to it. */
  has(feature: RulesetPart): boolean {
    return isInTable(feature, this.#context, this.#inTable);
  }

  /** Adds the parts that a service port needs. Those that it no longer needs stay until the next clean-up. */
  use(rules: ServicePortRules): void {
    for (const { name, feature, users } of this.#ofPorts) {
      if (needs(rules, feature)) users.add(rules.port.key);
      else users.delete(rules.port.key);
      if (users.size > 0) this.declare(name, true);
    }
  }

  /** Records that a service port needs no part any longer. */
  remove(key: ServicePortKey): void {
    for (const { users } of this.#ofPorts) users.delete(key);
  }

  /**
   * Deletes the parts that no service port needs.
   * @param hasSourceRanges whether their set has elements. A set that is deleted keeps its elements in the
   * kernel for a while: it has to be empty by then.
   */
  cleanUp(hasSourceRanges: boolean): void {
    for (const { name, feature, users } of this.#ofPorts)
      this.declare(name, users.size > 0 || (feature === undefined && hasSourceRanges));
  }

  /** Declares or deletes the sets and chains of a part. */
  declare(part: string, isNeeded: boolean): void {
    if (isNeeded === this.#inTable.has(part)) return;
    if (isNeeded) this.#inTable.add(part);
    else this.#inTable.delete(part);
    const feature = this.#context.features.find(({ name }) => name === part);
    for (const spec of (feature?.specs ?? sourceRangesSpecs)(this.#context)) {
      if (isNeeded) this.#tracker.putSet(spec);
      else this.#tracker.deleteSet(spec.name);
    }
    this.#putStaticChains();
    const prefix = feature?.intervals?.kind.prefix;
    if (prefix === undefined || isNeeded) return;
    // The balancing chains of intervals look into the maps of their feature.
    for (const name of [...this.#tracker.table.chains.keys()])
      if (name.startsWith(prefix)) this.#tracker.deleteChain(name);
  }

  #putStaticChains(): void {
    const chains = new Map(staticChains(this.#context, this.#inTable).map((chain) => [chain.name, chain]));
    for (const chain of chains.values()) this.#tracker.putChain(chain);
    for (const name of this.#chains) if (!chains.has(name)) this.#tracker.deleteChain(name);
    this.#chains = [...chains.keys()];
  }
}

function needs(
  { lists, frontends, intervals, ofFeatures }: ServicePortRules,
  feature: RulesetPart | undefined,
): boolean {
  if (feature === undefined) return frontends.some(({ guard }) => guard !== undefined);
  if (feature.intervals !== undefined) return intervals.length > 0;
  const isOf = ({ part }: { readonly part: RulesetPart }) => part.name === feature.name;
  return (lists.parts?.some(isOf) || ofFeatures?.some(isOf)) ?? false;
}
