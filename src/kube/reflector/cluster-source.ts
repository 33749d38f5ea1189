import type { Decoders } from "../decode/decoders.ts";
import type { ObjectSource, SourceHandlers } from "../source.ts";
import { Availability } from "./availability.ts";
import { FirstState } from "./list.ts";
import { type FollowedServer, Reflector } from "./reflector.ts";
import { resources } from "./resources.ts";

/** Options of {@link clusterSource}. */
export interface ClusterSourceOptions extends FollowedServer {
  /** The name of the Node that nft-proxy runs on. */
  readonly nodeName: string;
  readonly decoders: Decoders;
  readonly handlers: SourceHandlers;
  /** Returns the number of the cluster's nodes, 0 if it is unknown. */
  readonly nodes?: () => number;
}

/**
 * Returns a source that follows a cluster with one reflector for each resource. It does not close the client.
 */
export function clusterSource(options: ClusterSourceOptions): ObjectSource {
  const { clock, random, nodes = () => 0, decoders, handlers } = options;
  const resourceOf = resources(options.nodeName);
  const shared = {
    ...options,
    availability: new Availability(clock, random, nodes),
    firstState: new FirstState(),
  };
  const services = new Reflector({
    ...shared,
    resource: resourceOf.services,
    transform: decoders.services,
    handler: handlers.services,
  });
  const endpointslices = new Reflector({
    ...shared,
    resource: resourceOf.endpointslices,
    transform: decoders.endpointslices,
    handler: handlers.endpointslices,
  });
  const ofNode = new Reflector({
    ...shared,
    resource: resourceOf.nodes,
    transform: decoders.nodes,
    handler: handlers.nodes,
  });
  const servicecidrs = new Reflector({
    ...shared,
    resource: resourceOf.servicecidrs,
    transform: decoders.servicecidrs,
    handler: handlers.servicecidrs,
  });
  const all = [services, endpointslices, ofNode, servicecidrs];
  return {
    start: () => {
      for (const reflector of all) reflector.start();
    },
    stop: () => {
      for (const reflector of all) reflector.stop();
    },
    states: () => ({
      services: services.state(),
      endpointslices: endpointslices.state(),
      nodes: ofNode.state(),
      servicecidrs: servicecidrs.state(),
    }),
  };
}
