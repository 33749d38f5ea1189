import type { Clock } from "../../base/clock.ts";
import type { Family } from "../../base/family.ts";
import type { Endpoint } from "../../model/endpoint.ts";
import type { ServiceName } from "../../model/ids.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { Ruleset, SetSpec } from "../../nft/ast/ruleset.ts";
import type { Settings } from "../../ruleset/node-context.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";

/**
 * What a feature adds to the desired state that does not follow from the current objects alone, such as
 * elements for endpoints that left.
 */
export interface StatePart {
  /** The name of the feature. */
  readonly name: string;
  /** Reads changed Services, before they are rendered. */
  update(services: Iterable<ServiceName>): void;
  /** Puts the feature's elements into a desired state, after each rendering: see `FamilyState.setKeys`. */
  putInto(state: Pick<RulesetState, "families">): void;
  /**
   * Adopts what an earlier process left in the kernel, and puts it into the desired state.
   * @param remaining reads the remaining times of a set's elements
   */
  adopt(kernel: Ruleset, state: RulesetState, remaining: RemainingTimes): Promise<void>;
  /** Puts what the kernel may have into a desired state: another process decides about it. */
  keep(kernel: Ruleset, state: Pick<RulesetState, "families">): void;
  /** When {@link StatePart.putInto} has another result, on the monotonic clock; infinity for never. */
  nextChangeAt(): number;
  /** What commands and the status page know of it, as JSON. */
  shown(): object;
  /** The end of UDP flows to endpoints that still serve. */
  readonly flows?: FlowEnds;
}

/** Which UDP flows end though their endpoint still serves. */
export interface FlowEnds {
  /** Returns a function that finds the endpoints of a Service whose flows end. */
  endedIn(state: Pick<RulesetState, "families">): (service: ServiceName, endpoint: Endpoint) => boolean;
  /** The first time after a given one at which flows of further endpoints end; infinity for none. */
  nextAfter(moment: number): number;
}

/**
 * Reads the remaining times of the elements of a set, in milliseconds, in the order in which they expire.
 * Empty if they cannot be read.
 */
export type RemainingTimes = (family: Family, spec: SetSpec) => Promise<ReadonlyMap<string, number>>;

/** What a {@link StatePart} needs. */
export interface StatePartHost {
  readonly cache: ObjectCache;
  readonly clock: Pick<Clock, "now" | "monotonic">;
  readonly settings: Settings;
  /** Whether the objects are complete and final: then nothing waits for later changes. */
  readonly isFinal: boolean;
}
