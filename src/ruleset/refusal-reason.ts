import {
  type AddressInterval,
  addressNumber,
  joinIntervals,
  parseInterval,
} from "../base/address-interval.ts";
import { lowerBound } from "../base/first-sorted.ts";
import type { Branded } from "../base/text.ts";
import type { ServicePort } from "../model/service-port.ts";
import type { FamilyState } from "./family-state.ts";
import { kindOf } from "./frontend-kinds.ts";
import { refusalAt } from "./programmed-frontend.ts";
import { CLUSTER_IPS, NODEPORT_IPS } from "./sets.ts";

/** Why the rules refuse or drop a connection; `served` if they no longer do. */
export type RefusalReason =
  | "no-endpoints"
  | "no-local-endpoints"
  | "source-ranges"
  | "unserved-port"
  | "no-service"
  | "served"
  | FeatureRefusal;

/** The name of a feature that refuses some connections of clients that are served otherwise. */
export type FeatureRefusal = Branded<"FeatureRefusal">;

/** The owner of a refused destination and the current reason of the refusal. */
export interface RefusedFrontend {
  /** Undefined if no Service serves it. */
  readonly port: ServicePort | undefined;
  readonly reason: RefusalReason;
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
 * Finds the Service port and the reason of a refusal in the current rules.
 * @param allowed shared by all refusals that are looked at together
 */
export function refusedFrontend(
  state: FamilyState,
  { client, address, protocol, port }: RefusedConnection,
  allowed = new AllowedClients(),
): RefusedFrontend {
  const found = state.frontendAt(address, protocol, port, servesNodePorts(state, address));
  if (found === undefined)
    return { port: undefined, reason: has(state, CLUSTER_IPS, address) ? "unserved-port" : "no-service" };
  const reason = reasonAt(state, found.key);
  const isForbidden = reason === "source-ranges" && !allowed.allows(found.port, client);
  const isServed = reason === "served" || reason === "source-ranges";
  const by = isServed && !isForbidden ? refusingFeature(state, found.port) : undefined;
  return { port: found.port, reason: by ?? reason };
}

/** The feature that refuses some clients of a service port; undefined if none does. */
function refusingFeature(state: FamilyState, { key }: ServicePort): FeatureRefusal | undefined {
  const parts = state.servicePortRules(key)?.lists.parts;
  return parts?.find(({ part }) => part.refusesClients)?.part.name as FeatureRefusal | undefined;
}

/** Why the rules refuse connections to a Service port's frontend. Source ranges refuse only some clients. */
export function reasonAt(
  state: FamilyState,
  key: string,
): "no-endpoints" | "no-local-endpoints" | "source-ranges" | "served" {
  const refusal = refusalAt(state.table, key, state.kinds);
  if (refusal !== undefined) return refusal === "refused" ? "no-endpoints" : "no-local-endpoints";
  return has(state, kindOf(key, state.kinds).sourceRangeLists, key) ? "source-ranges" : "served";
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
