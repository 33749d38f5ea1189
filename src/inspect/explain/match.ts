import { addToGroup } from "../../base/group-by.ts";
import { oncePerObject } from "../../base/once-per-object.ts";
import { INTERVALS } from "../../features/frontends.ts";
import type { SliceEndpoint } from "../../model/endpoint-slice.ts";
import type { ServiceName } from "../../model/ids.ts";
import { familyOf, isLoopback } from "../../model/ip.ts";
import { addressesOf, type Service } from "../../model/service.ts";
import type { ServicePort } from "../../model/service-port.ts";
import { joinParts } from "../../nft/elements.ts";
import { intervalKey, parseFrontendKey } from "../../ruleset/keys.ts";
import { LOOPBACK_NODEPORT_ADDRESSES } from "../../ruleset/loopback.ts";
import { contextOf } from "../../ruleset/node-context.ts";
import { type FrontendView, type ServicePortView, viewService } from "../../ruleset/service-view.ts";
import { isLocal } from "../../trace/packet.ts";
import type { ExplainInput } from "./explain-input.ts";
import type { Connection } from "./explanation.ts";

/** The frontend that a connection is made to, as the objects define it. */
export interface Match {
  readonly port: ServicePort;
  readonly view: ServicePortView;
  readonly frontend: FrontendView;
  /** The other candidates for the frontend, in the order of succession. */
  readonly losers: readonly ServicePort[];
}

type Destination = Pick<Connection, "to" | "port" | "protocol">;

/** The frontend that a connection is made to; undefined when no Service has it. */
export function matchOf(destination: Destination, input: ExplainInput): Match | undefined {
  return matchAt(destination, input, servesNodePorts(destination.to, input));
}

/** The NodePort with a connection's port, whether or not its address serves NodePorts. */
export function nodePortAt(destination: Destination, input: ExplainInput): Match | undefined {
  const match = matchAt(destination, input, true);
  return match?.frontend.origin === "node-port" ? match : undefined;
}

function matchAt(
  { to, port: number, protocol }: Destination,
  input: ExplainInput,
  hasNodePorts: boolean,
): Match | undefined {
  const family = input.state.families[familyOf(to)];
  const owned = family?.frontendAt(to, protocol, number, hasNodePorts);
  if (family === undefined || owned === undefined) return undefined;
  const { key, port } = owned;
  if (parseFrontendKey(key).lastPort !== undefined && !servesIntervals(to, input)) return undefined;
  const found = viewsOf(port.service.name, input).get(`${port.key} ${key}`);
  if (found === undefined) return undefined;
  if (found.frontend.lastPort === undefined) return { port, ...found, losers: family.losersOf(key) };
  const losers = family.losersOf(intervalKey(key, { first: number, last: number }));
  return { port, frontend: found.frontend, view: atPort(found.view, number), losers };
}

/** The view of a service port for a port in its interval: connections keep this port at the endpoints. */
function atPort(view: ServicePortView, port: number): ServicePortView {
  const endpoints = view.endpoints.map((one) => {
    const { address } = one.endpoint;
    return [
      address,
      { ...one, endpoint: { ...one.endpoint, port, target: joinParts(address, port) } },
    ] as const;
  });
  return { ...view, endpoints: [...new Map(endpoints).values()] };
}

type Views = ReadonlyMap<string, Pick<Match, "view" | "frontend">>;

/**
 * Caches the views of the last Service: its frontends are explained one after another, and may be thousands.
 */
const lastViews = new WeakMap<ExplainInput, { readonly service: ServiceName; readonly views: Views }>();

/** The frontends of a Service, by service port and key. */
export function viewsOf(service: ServiceName, input: ExplainInput): Views {
  const last = lastViews.get(input);
  if (last?.service === service) return last.views;
  const { cache, nodeContext, state } = input;
  const views = new Map(
    viewService(cache, service, nodeContext, state).flatMap((view) =>
      view.frontends.map((frontend) => [`${view.port.key} ${frontend.key}`, { view, frontend }] as const),
    ),
  );
  lastViews.set(input, { service, views });
  return views;
}

/** Whether NodePorts are served at an address. */
export function servesNodePorts(address: string, { nodeContext, host }: ExplainInput): boolean {
  const context = contextOf(nodeContext, familyOf(address));
  if (context?.loopbackNodePorts && address === LOOPBACK_NODEPORT_ADDRESSES[context.family]) return true;
  const nodePorts = context?.nodePorts;
  if (nodePorts?.kind === "addresses") return nodePorts.addresses.includes(address);
  return nodePorts?.kind === "all" && isLocal(host, address) && !isLoopback(address);
}

/** Whether an address serves intervals of ports. */
export function servesIntervals(address: string, { nodeContext, host }: ExplainInput): boolean {
  const context = contextOf(nodeContext, familyOf(address));
  return context !== undefined && !(INTERVALS?.areVirtual(context) && isLocal(host, address));
}

/** The Services that have an address of any kind, in the order of their names. */
export function servicesAt(address: string, input: ExplainInput): readonly Service[] {
  return ownersOf(input).services.get(address) ?? [];
}

/** The Services that want a NodePort, in the order of their names. */
export function servicesWithNodePort({ port, protocol }: NodePort, input: ExplainInput): readonly Service[] {
  return ownersOf(input).nodePorts.get(`${protocol} ${port}`) ?? [];
}

/** The endpoints at an address, each with the name of its Service. */
export function endpointsAt(address: string, input: ExplainInput): readonly EndpointAt[] {
  return ownersOf(input).endpoints.get(address) ?? [];
}

type NodePort = Pick<Destination, "port" | "protocol">;

interface EndpointAt {
  readonly service: ServiceName;
  readonly endpoint: SliceEndpoint;
}

/**
 * The owners of addresses and of NodePorts. Found once: a thousand refused connections may look up a hundred
 * thousand endpoints.
 */
const ownersOf = oncePerObject(({ cache }: ExplainInput) => {
  const services = new Map<string, Service[]>();
  const nodePorts = new Map<string, Service[]>();
  const endpoints = new Map<string, EndpointAt[]>();
  for (const name of cache.serviceNames()) {
    const service = cache.service(name);
    if (service !== undefined) {
      for (const address of new Set(addressesOf(service))) addToGroup(services, address, service);
      for (const key of new Set(service.ports.map(({ protocol, nodePort }) => `${protocol} ${nodePort}`))) {
        addToGroup(nodePorts, key, service);
      }
    }
    for (const slice of cache.slices(name)) {
      for (const endpoint of slice.endpoints)
        addToGroup(endpoints, endpoint.address, { service: name, endpoint });
    }
  }
  return { services, nodePorts, endpoints };
});
