import { oncePerObject } from "../base/once-per-object.ts";
import { resultOf } from "../base/pieces.ts";
import { type Flow, isTranslated } from "../kernel/conntrack.ts";
import { type Endpoint, SlicesByPort } from "../model/endpoint.ts";
import { familyOf } from "../model/ip.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import type { Service } from "../model/service.ts";
import type { ServicePort } from "../model/service-port.ts";
import { joinParts } from "../nft/elements.ts";
import type { RulesetState } from "../ruleset/ruleset-state.ts";

/** The state of an endpoint; `vanished` if no EndpointSlice of its Service has it any more. */
export type EndpointCondition = "ready" | "not-ready" | "terminating" | "vanished";

/** The Service port of a connection, and its endpoint if it still exists. */
export interface AttributedConnection {
  readonly port: ServicePort;
  readonly endpoint: Endpoint | undefined;
  readonly condition: EndpointCondition;
}

/**
 * Finds the Service port and endpoint of a connection; undefined if it is not translated, or no Service has
 * its destination.
 */
export type ConnectionAttribution = ReturnType<typeof connectionAttribution>;

/**
 * Attributes connections by the objects of a moment.
 * @param nodeAddresses the addresses of this host: only these can serve NodePorts
 */
export function connectionAttribution(
  { families }: Pick<RulesetState, "families">,
  cache: ObjectCache,
  nodeAddresses: ReadonlySet<string>,
) {
  const slicesOf = oncePerObject(({ name }: Service) => resultOf(SlicesByPort.reading(cache.slices(name))));
  const endpointsOf = oncePerObject((port: ServicePort) => {
    const endpoints = resultOf(slicesOf(port.service).endpointsOf(port, cache.node.name));
    return new Map(endpoints.map((endpoint) => [endpoint.target, endpoint]));
  });
  return (flow: Flow): AttributedConnection | undefined => {
    if (!isTranslated(flow)) return undefined;
    const { protocol, destination, replySource } = flow;
    const { address } = destination;
    const state = families[familyOf(address)];
    const port = state?.frontendAt(address, protocol, destination.port, nodeAddresses.has(address))?.port;
    if (port === undefined) return undefined;
    const endpoint = endpointsOf(port).get(joinParts(replySource.address, replySource.port));
    return { port, endpoint, condition: conditionOf(endpoint) };
  };
}

function conditionOf(endpoint: Endpoint | undefined): EndpointCondition {
  if (endpoint === undefined) return "vanished";
  if (endpoint.source.terminating) return "terminating";
  return endpoint.source.ready ? "ready" : "not-ready";
}
