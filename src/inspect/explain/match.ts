import { familyOf, isLoopback } from "../../model/ip.ts";
import type { Service } from "../../model/service.ts";
import type { ServicePort } from "../../model/service-port.ts";
import { frontendKey, nodePortKey } from "../../ruleset/keys.ts";
import { LOOPBACK_NODEPORT_ADDRESSES } from "../../ruleset/loopback.ts";
import { type FrontendView, type ServicePortView, viewService } from "../../ruleset/service-view.ts";
import { isLocal } from "../../trace/packet.ts";
import type { ExplainInput } from "./explain-input.ts";
import type { Connection } from "./explanation.ts";

/** The frontend that a connection is made to, as the objects define it. */
export interface Match {
  readonly port: ServicePort;
  readonly view: ServicePortView;
  readonly frontend: FrontendView;
  /** The other candidates for the frontend, in the order in which they would take over. */
  readonly losers: readonly ServicePort[];
}

type Destination = Pick<Connection, "to" | "port" | "protocol">;

/** The frontend that a connection is made to; undefined when no Service has it. */
export function matchOf(destination: Destination, input: ExplainInput): Match | undefined {
  const { to, port, protocol } = destination;
  const own = ownerOf(frontendKey(to, protocol, port), to, input);
  if (own !== undefined) return own;
  return servesNodePorts(to, input) ? nodePortAt(destination, input) : undefined;
}

/** The NodePort of a connection's port, whichever addresses serve it. */
export function nodePortAt({ to, port, protocol }: Destination, input: ExplainInput): Match | undefined {
  return ownerOf(nodePortKey(familyOf(to), protocol, port), to, input);
}

function ownerOf(key: string, to: string, { cache, nodeContext, state }: ExplainInput): Match | undefined {
  const family = state.families[familyOf(to)];
  const port = family?.ownerOf(key);
  if (family === undefined || port === undefined) return undefined;
  const view = viewService(cache, port.service.name, nodeContext, state.families).find(
    (one) => one.port.key === port.key,
  );
  const frontend = view?.frontends.find((one) => one.key === key);
  if (view === undefined || frontend === undefined) return undefined;
  const losers = family.conflicts().find((conflict) => conflict.frontend === key)?.losers ?? [];
  return { port, view, frontend, losers };
}

/** Whether NodePorts are served at an address. */
export function servesNodePorts(address: string, { nodeContext, host }: ExplainInput): boolean {
  const context = nodeContext.find(({ family }) => family === familyOf(address));
  if (context?.loopbackNodePorts && address === LOOPBACK_NODEPORT_ADDRESSES[context.family]) return true;
  const nodePorts = context?.nodePorts;
  if (nodePorts?.kind === "addresses") return nodePorts.addresses.includes(address);
  return nodePorts?.kind === "all" && isLocal(host, address) && !isLoopback(address);
}

/** The Services of which an address is one, of whichever kind, by name. */
export function servicesAt(address: string, { cache }: ExplainInput): Service[] {
  const family = familyOf(address);
  return cache.serviceNames().flatMap((name) => {
    const service = cache.service(name);
    if (service === undefined) return [];
    const addresses = [service.clusterIPs[family], ...service.externalIPs[family], ...service.loadBalancerIPs[family]];
    return addresses.includes(address) ? [service] : [];
  });
}
