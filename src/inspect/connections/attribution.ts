import type { TrackedConnection } from "../../kernel/connections.ts";
import { type Endpoint, endpointsOf } from "../../model/endpoint.ts";
import type { ServicePortKey } from "../../model/ids.ts";
import { familyOf } from "../../model/ip.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { ServicePort } from "../../model/service-port.ts";
import { joinParts } from "../../nft/elements.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";

/** The state of an endpoint; `vanished` when no EndpointSlice of its Service has it any more. */
export type EndpointCondition = "ready" | "not-ready" | "terminating" | "vanished";

/** The Service port that a connection belongs to, and its endpoint as far as it is still there. */
export interface AttributedConnection {
  readonly port: ServicePort;
  readonly endpoint: Endpoint | undefined;
  readonly condition: EndpointCondition;
}

/** Finds the Service port and the endpoint of connections, from the objects alone. */
export class ConnectionAttribution {
  readonly #state: RulesetState;
  readonly #cache: ObjectCache;
  readonly #nodeAddresses: ReadonlySet<string>;
  readonly #endpoints = new Map<ServicePortKey, ReadonlyMap<string, Endpoint>>();

  /** @param nodeAddresses the addresses of this host: only connections to these can be to a NodePort */
  constructor(state: RulesetState, cache: ObjectCache, nodeAddresses: ReadonlySet<string>) {
    this.#state = state;
    this.#cache = cache;
    this.#nodeAddresses = nodeAddresses;
  }

  /** The Service port and endpoint of a connection; undefined when it is to no frontend of a Service. */
  of({ protocol, destination, replySource }: TrackedConnection): AttributedConnection | undefined {
    const { address } = destination;
    const state = this.#state.families[familyOf(address)];
    const port = state?.frontendAt(address, protocol, destination.port, this.#nodeAddresses.has(address))?.port;
    if (port === undefined) return undefined;
    const endpoint = this.#endpointsOf(port).get(joinParts(replySource.address, replySource.port));
    return { port, endpoint, condition: conditionOf(endpoint) };
  }

  #endpointsOf(port: ServicePort): ReadonlyMap<string, Endpoint> {
    const known = this.#endpoints.get(port.key);
    if (known !== undefined) return known;
    const endpoints = endpointsOf(this.#cache.slices(port.service.name), port, this.#cache.node.name);
    const byTarget = new Map(endpoints.map((endpoint) => [endpoint.target, endpoint]));
    this.#endpoints.set(port.key, byTarget);
    return byTarget;
  }
}

function conditionOf(endpoint: Endpoint | undefined): EndpointCondition {
  if (endpoint === undefined) return "vanished";
  if (endpoint.source.terminating) return "terminating";
  return endpoint.source.ready ? "ready" : "not-ready";
}
