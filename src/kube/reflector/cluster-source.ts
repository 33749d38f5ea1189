import type { Decoders } from "../decode/decoders.ts";
import { type AnyObject, byResource, type ObjectSource, type SourceHandlers } from "../source.ts";
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
  const reflectors = byResource((name) => {
    const [resource, transform, handler] = [resourceOf[name], decoders[name], handlers[name]];
    return new Reflector<AnyObject>({ ...shared, resource, transform, handler });
  });
  const all = Object.values(reflectors);
  return {
    start: () => {
      for (const reflector of all) reflector.start();
    },
    stop: () => {
      for (const reflector of all) reflector.stop();
    },
    states: () => byResource((name) => reflectors[name].state()),
  };
}
