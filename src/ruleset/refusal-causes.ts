import {
  type AddressInterval,
  addressNumber,
  joinIntervals,
  parseInterval,
} from "../base/address-interval.ts";
import { lowerBound } from "../base/first-sorted.ts";
import type { Branded } from "../base/text.ts";
import type { ServicePort } from "../model/service-port.ts";
import { CLUSTER_IPS_CHECK, DROP_CHAIN, REJECT_CHAIN, SOURCE_RANGES_CHECK } from "./chain-names.ts";
import type { FamilyState } from "./family-state.ts";
import { kindOf } from "./frontend-kinds.ts";
import { refusalAt } from "./programmed-frontend.ts";
import { CLUSTER_IPS, NODEPORT_IPS } from "./sets.ts";

/**
 * The causes for which the rules refuse or drop connections. Metrics and commands name their stable words;
 * Events, traces, the steps of `explain` and the status page have the messages. A feature adds its own cause
 * as `RulesetPart.refusal`.
 */
export const REFUSAL_CAUSES = {
  "no-endpoints": { result: "refused", message: "no endpoints" },
  "no-local-endpoints": { result: "dropped", message: "no endpoints on this node" },
  "source-ranges": { result: "dropped", message: "the client is in none of the source ranges" },
  "unserved-port": { result: "refused", message: "a cluster IP without this port" },
  "no-service": { result: "dropped", message: "no Service has the address" },
} as const;

/** Chains that refuse or drop connections for one cause. */
const REFUSING_CHAINS: Readonly<Record<string, keyof typeof REFUSAL_CAUSES>> = {
  [REJECT_CHAIN]: "no-endpoints",
  [DROP_CHAIN]: "no-local-endpoints",
  [SOURCE_RANGES_CHECK]: "source-ranges",
};

/**
 * The cause for which a chain refuses or drops connections; undefined for other chains.
 * @param chain its name, or that of the equivalent for ports
 */
export function causeOfChain(chain: string, isDropped: boolean): keyof typeof REFUSAL_CAUSES | undefined {
  if (chain === CLUSTER_IPS_CHECK) return isDropped ? "no-service" : "unserved-port";
  return REFUSING_CHAINS[chain];
}

/** Why the rules refuse or drop a connection; `served` if they no longer do. */
export type RefusalCause = keyof typeof REFUSAL_CAUSES | "served" | FeatureRefusal;

/** The name of a feature that refuses some connections of clients that are served otherwise. */
export type FeatureRefusal = Branded<"FeatureRefusal">;

/** The owner of a refused destination and the current cause of the refusal. */
export interface RefusedFrontend {
  /** Undefined if no Service serves it. */
  readonly port: ServicePort | undefined;
  readonly cause: RefusalCause;
  readonly message: string;
}

/** A client, and the destination at which it was refused. */
export interface RefusedConnection {
  readonly client: string;
  readonly address: string;
  readonly protocol: string;
  readonly port: number;
}

/**
 * Knows which clients the source ranges of Services allow. It parses the ranges of a Service once, as there
 * may be 20,000, and as many clients.
 */
export class AllowedClients {
  /** Ascending and disjoint, by the ranges of a Service. */
  readonly #intervals = new Map<readonly string[], readonly AddressInterval[]>();

  allows({ service, family }: ServicePort, client: string): boolean {
    const ranges = service.loadBalancerSourceRanges[family];
    const intervals =
      this.#intervals.get(ranges) ?? joinIntervals(ranges.map((range) => parseInterval(family, range)));
    this.#intervals.set(ranges, intervals);
    const number = addressNumber(family, client);
    const found = intervals[lowerBound(intervals, ({ last }) => last < number)];
    return found !== undefined && found.first <= number;
  }
}

/**
 * Finds the Service port and the cause of a refusal in the current rules.
 * @param allowed shared by all refusals that are looked at together
 */
export function refusedFrontend(
  state: FamilyState,
  { client, address, protocol, port }: RefusedConnection,
  allowed = new AllowedClients(),
): RefusedFrontend {
  const found = state.frontendAt(address, protocol, port, servesNodePorts(state, address));
  if (found === undefined)
    return known(undefined, has(state, CLUSTER_IPS, address) ? "unserved-port" : "no-service");
  // As in the rules, source ranges come first, and clients that they forbid do not count for features.
  if (isGuarded(state, found.key) && !allowed.allows(found.port, client))
    return known(found.port, "source-ranges");
  const refusal = refusalAt(state.table, found.key, state.kinds);
  if (refusal !== undefined) return known(found.port, refusal);
  const parts = state.servicePortRules(found.port.key)?.lists.parts;
  for (const { part } of parts ?? []) {
    if (part.refusal === undefined) continue;
    return { port: found.port, cause: part.name as FeatureRefusal, message: part.refusal.message };
  }
  return { port: found.port, cause: "served", message: "served again" };
}

function known(port: ServicePort | undefined, cause: keyof typeof REFUSAL_CAUSES): RefusedFrontend {
  return { port, cause, message: REFUSAL_CAUSES[cause].message };
}

/** Whether only the source ranges of a Service may use a frontend. */
function isGuarded(state: FamilyState, key: string): boolean {
  return has(state, kindOf(key, state.kinds).sourceRangeLists, key);
}

/** If every address of the node serves NodePorts, any address but a cluster IP may be one. */
function servesNodePorts(state: FamilyState, address: string): boolean {
  const addresses = state.table.sets.get(NODEPORT_IPS)?.elements;
  return addresses === undefined || addresses.size === 0
    ? !has(state, CLUSTER_IPS, address)
    : addresses.has(address);
}

function has({ table }: FamilyState, set: string, key: string): boolean {
  return table.sets.get(set)?.elements.has(key) ?? false;
}
