import type { ServicePort } from "../model/service-port.ts";
import type { FamilyState } from "./family-state.ts";
import { refusalAt } from "./programmed-frontend.ts";
import { CLUSTER_IPS, kindOf, NODEPORT_IPS } from "./sets.ts";

/** Why the rules refuse or drop a connection; `served` if they no longer do. */
export type RefusalReason =
  | "no-endpoints"
  | "no-local-endpoints"
  | "source-ranges"
  | "unserved-port"
  | "no-service"
  | "served";

/** The owner of a refused destination and the current reason of the refusal. */
export interface RefusedFrontend {
  /** Undefined if no Service serves it. */
  readonly port: ServicePort | undefined;
  readonly reason: RefusalReason;
}

/** Finds the Service port and the reason of a refusal in the current rules. */
export function refusedFrontend(
  state: FamilyState,
  { address, protocol, port }: { readonly address: string; readonly protocol: string; readonly port: number },
): RefusedFrontend {
  const found = state.frontendAt(address, protocol, port, servesNodePorts(state, address));
  if (found === undefined)
    return { port: undefined, reason: has(state, CLUSTER_IPS, address) ? "unserved-port" : "no-service" };
  return { port: found.port, reason: reasonAt(state, found.key) };
}

/** Why the rules refuse connections to a Service port's frontend. Source ranges refuse only some clients. */
export function reasonAt(
  state: FamilyState,
  key: string,
): "no-endpoints" | "no-local-endpoints" | "source-ranges" | "served" {
  const refusal = refusalAt(state.table, key);
  if (refusal !== undefined) return refusal === "refused" ? "no-endpoints" : "no-local-endpoints";
  return has(state, kindOf(key).firewallIPs, key) ? "source-ranges" : "served";
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
