import type { Family } from "../base/family.ts";
import type { LimitWords } from "../model/budgets.ts";
import type { Endpoint, ShareOf } from "../model/endpoint.ts";
import type { EndpointChoice, Place } from "../model/endpoint-choice.ts";
import type { NodePortAddresses } from "../model/node.ts";
import type { Service } from "../model/service.ts";
import type { PortOfService, ServicePort } from "../model/service-port.ts";
import type { LastStatement, Rule, Statement } from "../nft/ast/json.ts";
import type { Chain, Flowtable, SetSpec, TimeoutPolicy } from "../nft/ast/ruleset.ts";
import type { DeltaTracker } from "./delta-tracker.ts";
import { type DrawMethod, type ListDraw, RANDOM } from "./draws.ts";
import { type FrontendKind, type IntervalKind, PORTS_ALONE } from "./frontend-kinds.ts";
import type { DividedIntervals, PortInterval } from "./interval-frontends.ts";
import type { LostFrontends } from "./lost-frontends.ts";
import { roundedAffinitySeconds } from "./setting-grids.ts";

/** How to recognise traffic from this cluster's pods (kube-proxy's `--detect-local-mode`). */
export type LocalTraffic =
  | { readonly kind: "unknown" }
  /** Canonical CIDRs, at least one. */
  | { readonly kind: "sources"; readonly cidrs: readonly string[] }
  /** An interface name; a trailing `*` matches any rest. */
  | { readonly kind: "interface"; readonly pattern: string };

/** Everything besides Services and EndpointSlices that the rules of one family depend on. */
export interface FamilyContext {
  readonly family: Family;
  readonly place: Place;
  /** The node's primary address, "" for none. */
  readonly nodeAddress: string;
  readonly localTraffic: LocalTraffic;
  readonly masqueradeAll: boolean;
  /** A number with one bit, such as 0x4000. */
  readonly masqueradeMark: number;
  readonly nodePorts: NodePortAddresses;
  /** The node's loopback address serves TCP NodePorts, through userspace (KEP-6032). */
  readonly loopbackNodePorts: boolean;
  /** Canonical CIDRs; packets to their unused addresses are dropped. */
  readonly serviceCIDRs: readonly string[];
  /**
   * The frontend keys (`192.0.2.9 . tcp . 6443`) of the API servers that the daemon connects to, sorted.
   * Intervals never include them.
   */
  readonly apiServers: readonly string[];
  /** Maximum number of clients in an affinity map. */
  readonly affinityMapSize: number;
  /** Maximum timeout of session affinity, in seconds; longer ones of Services are cut to it. */
  readonly maxAffinitySeconds: number;
  /** Maximum number of elements of one Service, in both families. */
  readonly maxServiceElements: number;
  /** Maximum number of elements of all Services, and of those of one namespace, in both families. */
  readonly maxElements: number;
  readonly maxNamespaceElements: number;
  /** Maximum number of sticky service ports in this family; one namespace may have half of them. */
  readonly maxStickyPorts: number;
  /** The enabled features that add something to tables. */
  readonly features: readonly RulesetPart[];
  /** The names of enabled features that nft or the kernel lacks. */
  readonly lacking: readonly string[];
  readonly settings: Settings;
}

/**
 * The values of options that only one feature has, and what else features need of the node's settings, by
 * name. Each feature declares the type of those that it reads.
 */
export type Settings = Readonly<Record<string, unknown>>;

/** One element that a service port wants in a set or map; `value` is "" in a set. */
export interface DesiredElement {
  readonly set: string;
  readonly key: string;
  readonly value: string;
}

/** What a feature adds to a table, while a service port wants it or its own set has elements. */
export interface RulesetPart extends SetsAndChains {
  /** The name of the feature. */
  readonly name: string;
  /** Whether a table always has it. */
  readonly isAlways?: (context: FamilyContext) => boolean;
  /** What it adds beside its other sets and chains while a Service has source ranges. */
  readonly besideSourceRanges?: Required<SetsAndChains>;
  /** A set that the feature fills itself: see `FamilyState.setKeys`. */
  readonly ownSet?: string;
  /** Whether its rules break connections when that set gets elements: no rule sees those in a flow table. */
  readonly breaksConnections?: true;
  /** Rules for all packets of the node, before any destination is translated. */
  readonly beforeTranslation?: readonly Rule[];
  /** Rules that begin the filter chains. Every packet of the node passes them. */
  readonly onFiltering?: readonly Rule[];
  /** The flow table of each family: at most one feature has it. */
  readonly flowtable?: (family: Family) => Flowtable;
  /** What filter-forward does with packets of known connections in place of accepting them; likewise. */
  readonly onKnown?: Statement;
  /** Rules for the first packets of connections, when they have their endpoints' addresses. */
  readonly afterTranslation?: readonly Rule[];
  /** Rules for packets that no frontend takes. */
  readonly withoutFrontend?: (context: FamilyContext) => readonly Rule[];
  /** Rules before each rule that refuses or drops connections. @param conditions those of that rule */
  readonly beforeRefusal?: (context: FamilyContext, conditions: readonly Statement[]) => readonly Rule[];
  /** Rules for packets that are refused because a frontend has no endpoints, before they get an answer. */
  readonly onRefusal?: readonly Rule[];
  /** Rules for all packets with the id of a list or external way in the register. */
  readonly onArrival?: readonly Rule[];
  /** The same just before packets are balanced: source ranges allow them. */
  readonly beforeBalancing?: readonly Rule[];
  /** Whether a chain with this name serves only the service ports that want it; none if absent. */
  readonly isChainOfPort?: (name: string) => boolean;
  /** What a service port wants of it; undefined for nothing. Equal ones are the same object. */
  readonly partOf?: (port: ServicePort, context: FamilyContext) => PortPart | undefined;
  /** The elements that a service port wants in its sets. Several service ports may want the same. */
  readonly elementsOf?: (
    port: ServicePort,
    choice: EndpointChoice,
    context: FamilyContext,
  ) => readonly DesiredElement[];
  /** For a feature that takes endpoints out of lists; see `ObjectCache.setEjected`. */
  readonly ejection?: EjectionPart;
  /** Writes elements for the frontends of service ports, into sets of its own. */
  readonly frontendElements?: (parts: FrontendElementsParts) => FrontendElements;
  /** The sets whose keys begin with an address: such an element belongs to all service ports that have it. */
  readonly addressSets?: readonly string[];
  /** Maximum number of such elements for a Service. */
  readonly mostElements?: (addresses: AddressCounts) => number;
  /**
   * The sets that packets fill with clients by service port id, with words for the status page. Nobody else
   * gets such an id while the kernel has clients of it.
   */
  readonly clientSets?: Readonly<Record<string, string>>;
  /** How it refuses some connections of clients that are served otherwise, for a cause with its own name. */
  readonly refusal?: OwnRefusal;
  /** Draws endpoints in other ways than at random. At most one feature does. */
  readonly draws?: DrawPart;
  /** Further frontends of service ports. At most one feature has some. */
  readonly intervals?: IntervalFrontends;
  /** The maps of frontends whose elements count the new connections that find them. */
  readonly counted?: (context: FamilyContext) => readonly CountedMap[];
  readonly budget?: OwnBudget;
  /** Absent if it needs nothing that our other rules do not need, too. */
  readonly needs?: FeatureNeeds;
}

/** A map of a {@link FrontendKind} whose elements may have counters. */
export type CountedMap = "lists" | "endpoints";

/** Whether a table has what a feature adds to it. @param parts the names of those that something wants */
export function isInTable(
  { name, isAlways }: RulesetPart,
  context: FamilyContext,
  parts: ReadonlySet<string> = NO_PARTS,
): boolean {
  return parts.has(name) || (isAlways?.(context) === true && !context.lacking.includes(name));
}

/** Nothing wants an optional part. */
export const NO_PARTS: ReadonlySet<string> = new Set();

/** The flow table that a table has, and that forwards connections past our rules; undefined for none. */
export function flowtableOf(context: FamilyContext): Flowtable | undefined {
  const { features, family } = context;
  return features.find((part) => part.flowtable && isInTable(part, context))?.flowtable?.(family);
}

/** The rules of features that precede a rule with these conditions which refuses or drops connections. */
export function beforeRefusal(context: FamilyContext, ...conditions: readonly Statement[]): Rule[] {
  return context.features.flatMap((feature) => feature.beforeRefusal?.(context, conditions) ?? []);
}

/** Further frontends of service ports: intervals of ports, in sets and chains of their own. */
export interface IntervalFrontends {
  readonly kind: IntervalKind;
  /** The intervals that a service port has, ascending and without overlaps; undefined for none. */
  readonly intervalsOf: (
    port: Pick<PortOfService, "service" | "spec">,
  ) => readonly PortInterval[] | undefined;
  /** Whether the node's own addresses do not serve them, so that its programs keep their ports. */
  readonly areVirtual: (context: FamilyContext) => boolean;
  /** Divides the ports of each address among the service ports that want them. */
  readonly divide: (frontends: () => Iterable<string>, lost: LostFrontends) => DividedIntervals;
}

/** Further ways to draw endpoints of lists. */
export interface DrawPart {
  readonly methods: readonly DrawMethod[];
  /** How to draw one of several endpoints; at random if undefined. */
  readonly drawOf: (
    port: ServicePort,
    endpoints: readonly Endpoint[],
    context: FamilyContext,
  ) => ListDraw | undefined;
  readonly shareOf: ShareOf;
  /**
   * Maximum number of numbers of a list.
   * @param weights those of the endpoints of its port
   * @param count the number of its endpoints
   */
  readonly mostNumbers: (
    port: PortOfService,
    weights: ListWeights,
    count: number,
    context: FamilyContext,
  ) => number;
}

/** The shares of all endpoints of a service port. */
export interface ListWeights {
  readonly sum: number;
  /** The lightest and the heaviest slice. A share of 0 is not the lightest; infinite if all are 0. */
  readonly lightest: number;
  readonly heaviest: number;
}

/** How a feature ejects endpoints from lists. */
export interface EjectionPart {
  /** Maximum share of a list that may be ejected, in percent; undefined if none may. */
  readonly mostOf: (port: ServicePort, context: FamilyContext) => number | undefined;
  /**
   * Its set of all endpoints that may be ejected, ejected ones included. A daemon that starts keeps those
   * ejected that the kernel has in this set and in no list.
   */
  readonly set: string;
  /** Whether this node may try an endpoint: the author of an EndpointSlice can name any address. */
  readonly mayTry: (target: string, context: FamilyContext) => boolean;
}

/** The elements that a service port wants of a feature, at least one. */
export interface FeatureElements {
  readonly part: RulesetPart;
  readonly elements: readonly DesiredElement[];
}

/** The refusal of a feature: its part of `REFUSAL_CAUSES`. */
interface OwnRefusal {
  /** The chain that refuses connections. */
  readonly chain: string;
  /** Why it refuses them. */
  readonly message: string;
}

/** Sets and maps, and chains. */
interface SetsAndChains {
  readonly specs?: (context: FamilyContext) => readonly SetSpec[];
  readonly chains?: (context: FamilyContext) => readonly Chain[];
}

/** Writes a feature's elements for frontends. */
export interface FrontendElements {
  /** Replaces the clients of a frontend; undefined for none. Called for ports, not for port ranges. */
  replace(before: FrontendClients | undefined, after: FrontendClients | undefined): void;
  /** Writes everything again that has the number of a list of source ranges: these have changed. */
  renumbered(): void;
}

/** Parts of {@link FrontendElements}. */
export interface FrontendElementsParts {
  readonly table: Pick<DeltaTracker, "table" | "setElement">;
  /** The number of a list of source ranges that a frontend uses, as the value of an element. */
  readonly numberOf: (id: string) => string | undefined;
}

/** Which clients a frontend serves. */
export interface FrontendClients {
  /** `10.96.0.10 . tcp . 53`, or `0.0.0.0 . tcp . 30080` for a NodePort. */
  readonly key: string;
  /** Whether it serves only pods and the node itself. */
  readonly isInsideOnly: boolean;
  /** The id of the list of source ranges that they must be in; undefined for none. */
  readonly ranges: string | undefined;
}

/** The number of addresses of a Service in a family. */
export interface AddressCounts {
  /** External and load-balancer addresses. */
  readonly external: number;
  /** The load-balancer addresses that are restricted to source ranges. */
  readonly guarded: number;
}

/**
 * What a service port wants of a feature: a chain, an element with its id that leads there, and perhaps an
 * object that the chain assigns.
 */
export interface PortPart {
  readonly part: RulesetPart;
  /** A map of service port ids to verdicts. The table has `id : jump CHAIN` while the port wants it. */
  readonly map: string;
  /** Shared by all service ports that want the same. */
  readonly chain: Chain;
  readonly object?: TimeoutPolicy;
}

/** What a feature needs of nft and the kernel. */
export interface FeatureNeeds {
  readonly name: string;
  /** How to get it, in one sentence. */
  readonly hint: string;
  /** What happens without it. */
  readonly consequence: string;
  /** What service ports of the family ip want that need all of it; nothing if absent. */
  readonly sample?: () => readonly PortPart[];
  /** The release of the kernel that it needs, recognised by a statement that was added in it. */
  readonly release?: { readonly name: string; readonly hint: string; readonly statement: LastStatement };
}

/** A Service, and the number of endpoints in its slices by the names of their ports. */
export interface CountedObjects {
  readonly service: Service;
  readonly endpoints: ReadonlyMap<string, { readonly count: number }>;
}

/** A feature with a budget: how it is counted in a family, and how its shortfall is reported. */
export interface FeatureBudgetParts {
  readonly name: string;
  /** What a Service is then served without. */
  readonly text: string;
  /** The topic of the note of `explain`, and what `diff` calls a chain of a service port. */
  readonly topic: string;
  /** The reason of the Event. */
  readonly event: string;
  /** What `check` names: the annotation, or the path of a field if it is none or one of several. */
  readonly annotation?: string;
  readonly path?: string;
  readonly amountOf: (of: CountedObjects, context: FamilyContext) => number;
  /** One namespace gets at most half of it, rounded up; the oldest Services come first. */
  readonly limitOf: (context: FamilyContext) => number;
  /** What is counted, after "can have 64 ". */
  readonly what: string;
  /** The name of what several Services count as one; it differs for what counts separately. */
  readonly sharedOf?: (of: Pick<CountedObjects, "service">) => string | undefined;
  readonly without: (service: Service) => Service;
  /** The reason to give if the limit is 0; absent if the limit itself is the reason. */
  readonly none?: string;
}

/**
 * What differs between the budgets of features. Each counts different settings, and allows none if nft or the
 * kernel lacks what the feature needs.
 */
export interface OwnBudget extends Omit<FeatureBudgetParts, "name" | "limitOf" | "without"> {
  /** How many different settings a family may have; 64 if absent. One namespace gets half of it. */
  readonly most?: number;
  /** The limit, if it is not constant. */
  readonly limitOf?: FeatureBudgetParts["limitOf"];
  /** The limit of one Service in both families, beyond which it gets no rules. */
  readonly ofService?: { readonly limit: number; readonly words: LimitWords };
  /** The elements of a Service for each that is counted; one for each of its ports if absent. */
  readonly elements?: number;
  /** The Service without the feature; `withoutFeature` if absent. */
  readonly without?: (service: Service) => Service;
}

/** Everything else that rules depend on: one entry for each programmed family. */
export type NodeContext = readonly FamilyContext[];

/**
 * Time that clients of a Service keep their endpoint, in seconds; 0 for no affinity. Rounded up to one of
 * `AFFINITY_SECONDS`.
 */
export function affinitySecondsOf(
  { affinitySeconds }: Pick<Service, "affinitySeconds">,
  { maxAffinitySeconds }: Pick<FamilyContext, "maxAffinitySeconds">,
): number {
  return affinitySeconds === 0 ? 0 : roundedAffinitySeconds(affinitySeconds, maxAffinitySeconds);
}

/** The context of a family; undefined if it is not programmed. */
export function contextOf(nodeContext: NodeContext, family: Family): FamilyContext | undefined {
  return nodeContext.find((context) => context.family === family);
}

/** The intervals of ports that a feature adds to the frontends of service ports; undefined for none. */
export function intervalsIn({ features }: Pick<FamilyContext, "features">): IntervalFrontends | undefined {
  return features.find(({ intervals }) => intervals !== undefined)?.intervals;
}

/** Whether a service port has intervals of ports. */
export function hasIntervals(
  port: Pick<PortOfService, "service" | "spec">,
  context: Pick<FamilyContext, "features">,
): boolean {
  return intervalsIn(context)?.intervalsOf(port) !== undefined;
}

/** The kinds of frontends, in the order in which rules look them up. */
export function kindsIn(context: Pick<FamilyContext, "features">): readonly FrontendKind[] {
  const intervals = intervalsIn(context);
  return intervals === undefined ? PORTS_ALONE : [...PORTS_ALONE, intervals.kind];
}

/** The other ways to draw endpoints that a feature adds; undefined for none. */
export function drawsIn({ features }: Pick<FamilyContext, "features">): DrawPart | undefined {
  return features.find(({ draws }) => draws !== undefined)?.draws;
}

/** All ways to draw endpoints. */
export function drawMethodsIn(context: Pick<FamilyContext, "features">): readonly DrawMethod[] {
  return [RANDOM, ...(drawsIn(context)?.methods ?? [])];
}
