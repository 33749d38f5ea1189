import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/logger.ts";
import type { ApiClient } from "../client/client.ts";
import type { Decoders } from "../decode/decoders.ts";
import type { ObjectSource, ResourceName, SourceHandlers, SourceState } from "../source.ts";
import { Availability } from "./availability.ts";
import { FirstState } from "./list.ts";
import { DEFAULT_TIMINGS, Reflector, type ReflectorTimings } from "./reflector.ts";
import { resources } from "./resources.ts";

/** Options of {@link clusterSource}. */
export interface ClusterSourceOptions {
  readonly client: ApiClient;
  /** The name of the Node that nft-proxy runs on. */
  readonly nodeName: string;
  readonly decoders: Decoders;
  readonly handlers: SourceHandlers;
  readonly clock: Clock;
  /** Returns numbers in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
  readonly timings?: ReflectorTimings;
  /**
   * True if an earlier process left rules in the kernel: empty first lists are then not accepted immediately
   * either.
   */
  readonly hasRules?: boolean;
  /** Returns the number of the cluster's nodes, 0 if it is unknown. */
  readonly nodes?: () => number;
  /** Called for the first of several lists that are not accepted. */
  readonly onImplausible?: (resource: ResourceName) => void;
}

/**
 * Returns a source that follows a cluster with one reflector for each resource. It does not close the client.
 */
export function clusterSource(options: ClusterSourceOptions): ObjectSource {
  const reflectors = makeReflectors(options);
  const all = Object.values(reflectors);
  return {
    start: () => {
      for (const reflector of all) reflector.start();
    },
    stop: () => {
      for (const reflector of all) reflector.stop();
    },
    states: () => ({
      services: reflectors.services.state(),
      endpointslices: reflectors.endpointslices.state(),
      nodes: reflectors.nodes.state(),
      servicecidrs: reflectors.servicecidrs.state(),
    }),
  };
}

/** The part of a reflector that does not depend on its type of object. */
type AnyReflector = { start(): void; stop(): void; state(): SourceState };

function makeReflectors(options: ClusterSourceOptions): Readonly<Record<ResourceName, AnyReflector>> {
  const { client, clock, random, logger, decoders, handlers, timings = DEFAULT_TIMINGS } = options;
  const { services, endpointslices, nodes, servicecidrs } = resources(options.nodeName);
  const shared = {
    client,
    clock,
    random,
    logger,
    timings,
    availability: new Availability(clock, random, options.nodes ?? (() => 0)),
    firstState: new FirstState(),
    hasRules: options.hasRules ?? false,
    onImplausible: options.onImplausible ?? (() => {}),
  };
  return {
    services: new Reflector({
      ...shared,
      resource: services,
      transform: decoders.services,
      handler: handlers.services,
    }),
    endpointslices: new Reflector({
      ...shared,
      resource: endpointslices,
      transform: decoders.endpointslices,
      handler: handlers.endpointslices,
    }),
    nodes: new Reflector({ ...shared, resource: nodes, transform: decoders.nodes, handler: handlers.nodes }),
    servicecidrs: new Reflector({
      ...shared,
      resource: servicecidrs,
      transform: decoders.servicecidrs,
      handler: handlers.servicecidrs,
    }),
  };
}
