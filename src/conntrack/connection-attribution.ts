import type { Flow } from "../kernel/conntrack.ts";
import { type Endpoint, SlicesByPort } from "../model/endpoint.ts";
import type { ServiceName, ServicePortKey } from "../model/ids.ts";
import { familyOf } from "../model/ip.ts";
import type { ObjectCache } from "../model/object-cache.ts";
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

/** Finds the Service port and endpoint of connections from the objects. */
export class ConnectionAttribution {
  readonly #state: RulesetState;
  readonly #cache: ObjectCache;
  readonly #nodeAddresses: ReadonlySet<string>;
  readonly #slices = new Map<ServiceName, SlicesByPort>();
  readonly #endpoints = new Map<ServicePortKey, ReadonlyMap<string, Endpoint>>();

  /** @param nodeAddresses the addresses of this host: only these can serve NodePorts */
  constructor(state: RulesetState, cache: ObjectCache, nodeAddresses: ReadonlySet<string>) {
    this.#state = state;
    this.#cache = cache;
    this.#nodeAddresses = nodeAddresses;
  }

  /** The Service port and endpoint of a connection; undefined if no Service has its destination. */
  of({ protocol, destination, replySource }: Flow): AttributedConnection | undefined {
    const { address } = destination;
    const state = this.#state.families[familyOf(address)];
    const port = state?.frontendAt(
      address,
      protocol,
      destination.port,
      this.#nodeAddresses.has(address),
    )?.port;
    if (port === undefined) return undefined;
    const endpoint = this.#endpointsOf(port).get(joinParts(replySource.address, replySource.port));
    return { port, endpoint, condition: conditionOf(endpoint) };
  }

  #endpointsOf(port: ServicePort): ReadonlyMap<string, Endpoint> {
    const known = this.#endpoints.get(port.key);
    if (known !== undefined) return known;
    const { name } = port.service;
    const slices = this.#slices.get(name) ?? new SlicesByPort(this.#cache.slices(name));
    this.#slices.set(name, slices);
    const endpoints = slices.endpointsOf(port, this.#cache.node.name);
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
