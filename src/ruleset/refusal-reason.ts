import type { ServicePort } from "../model/service-port.ts";
import { DROP_CHAIN, REJECT_CHAIN } from "./chain-names.ts";
import type { FamilyState } from "./family-state.ts";
import { frontendKey, nodePortKey } from "./keys.ts";
import { CLUSTER_IPS, FIREWALL_IPS, NO_ENDPOINTS, NODEPORT_IPS } from "./sets.ts";

/** Why the rules refuse or drop a connection; `served` when they do not any more. */
export type RefusalReason =
  | "no-endpoints"
  | "no-local-endpoints"
  | "source-ranges"
  | "unserved-port"
  | "no-service"
  | "served";

/** A destination that was refused: whose it is, and why it is refused now. */
export interface RefusedFrontend {
  /** Undefined where no Service serves it. */
  readonly port: ServicePort | undefined;
  readonly reason: RefusalReason;
}

/** Finds the Service port and the reason of a refusal in the rules as they are now. */
export function refusedFrontend(
  state: FamilyState,
  { address, protocol, port }: { readonly address: string; readonly protocol: string; readonly port: number },
): RefusedFrontend {
  const own = frontendKey(address, protocol, port);
  const isNodePort = state.ownerOf(own) === undefined && servesNodePorts(state, address);
  const key = isNodePort ? nodePortKey(state.table.family, protocol, port) : own;
  const owner = state.ownerOf(key);
  if (owner === undefined)
    return { port: undefined, reason: has(state, CLUSTER_IPS, address) ? "unserved-port" : "no-service" };
  const verdict = state.table.sets.get(NO_ENDPOINTS)?.elements.get(key);
  if (verdict === `goto ${REJECT_CHAIN}`) return { port: owner, reason: "no-endpoints" };
  if (verdict === `goto ${DROP_CHAIN}`) return { port: owner, reason: "no-local-endpoints" };
  return { port: owner, reason: has(state, FIREWALL_IPS, key) ? "source-ranges" : "served" };
}

/** Where every address of the node serves NodePorts, all that are no cluster IP may be one of them. */
function servesNodePorts(state: FamilyState, address: string): boolean {
  const addresses = state.table.sets.get(NODEPORT_IPS)?.elements;
  return addresses === undefined || addresses.size === 0 ? !has(state, CLUSTER_IPS, address) : addresses.has(address);
}

function has({ table }: FamilyState, set: string, key: string): boolean {
  return table.sets.get(set)?.elements.has(key) ?? false;
}
