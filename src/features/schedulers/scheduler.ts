import { alternatives, quoted } from "../../base/text.ts";
import type { Service } from "../../model/service.ts";
import type { FamilyContext } from "../../ruleset/node-context.ts";
import type { Parsed } from "../seam/feature.ts";

/** The name of the feature. */
export const FEATURE = "schedulers";

/** The annotation of a Service that names its scheduler. */
export const SCHEDULER_ANNOTATION = "nft-proxy.io/scheduler";

/** The annotation of an EndpointSlice with the weight of its endpoints. */
export const WEIGHT_ANNOTATION = "nft-proxy.io/weight";

/** The ways of choosing an endpoint for a new connection. */
export const SCHEDULERS = ["random", "round-robin", "source-hash", "flow-hash"] as const;

/** A way of choosing an endpoint for a new connection. */
export type Scheduler = (typeof SCHEDULERS)[number];

/** The greatest weight. */
const MOST_WEIGHT = 100;

/** What the annotation of a Service asks for. */
interface OwnScheduler {
  readonly scheduler: Scheduler;
}

/** What the annotation of an EndpointSlice asks for: 0 to 100; 0 drains the endpoints. */
export interface SliceWeight {
  readonly weight: number;
}

/** The scheduler that a Service names itself; undefined for none. */
export function ownSchedulerOf({ features }: Pick<Service, "features">): Scheduler | undefined {
  return (features?.[FEATURE] as OwnScheduler | undefined)?.scheduler;
}

/** The scheduler of Services that name none; `random` without a setting. */
export function defaultScheduler({ settings }: Pick<FamilyContext, "settings">): Scheduler {
  return (settings as Partial<OwnScheduler>).scheduler ?? "random";
}

/** Parses the annotation of a Service. */
export function parseScheduler(text: string): Parsed {
  const scheduler = SCHEDULERS.find((one) => one === text);
  if (scheduler !== undefined) return { value: { scheduler } satisfies OwnScheduler };
  return { reason: `must be ${alternatives(SCHEDULERS)}, not ${quoted(text)}` };
}

/** Parses the annotation of an EndpointSlice. */
export function parseWeight(text: string): Parsed {
  const weight = /^\d{1,3}$/.test(text) ? Number(text) : Number.POSITIVE_INFINITY;
  if (weight <= MOST_WEIGHT) return { value: { weight } satisfies SliceWeight };
  return { reason: `must be a number from 0 to ${MOST_WEIGHT}, not ${quoted(text)}` };
}
