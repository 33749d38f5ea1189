import type { Service } from "../model/service.ts";
import { portEquivalent as equivalentOf, type FrontendKind } from "../ruleset/frontend-kinds.ts";
import { type IntervalFrontends, intervalsIn, kindsIn } from "../ruleset/node-context.ts";
import { FEATURES } from "./registry.ts";
import type { Feature } from "./seam/feature.ts";

/** The feature that adds intervals of ports to the frontends of service ports, if any. */
export const INTERVAL_FEATURE: Feature | undefined = FEATURES.find(({ ruleset }) => ruleset?.intervals);

const ALL = { features: FEATURES.flatMap(({ ruleset }) => ruleset ?? []) };

/** What it adds, enabled or not. */
export const INTERVALS: IntervalFrontends | undefined = intervalsIn(ALL);

/** The kinds of frontends that a table can have, in the order in which rules look them up. */
export const FRONTEND_KINDS: readonly FrontendKind[] = kindsIn(ALL);

/** The equivalent for ports of a set or chain for intervals; every other name is returned unchanged. */
export function portEquivalent(name: string): string {
  return equivalentOf(name, FRONTEND_KINDS);
}

/** Whether a port of a Service has intervals of ports. */
export function hasIntervals(service: Service): boolean {
  return service.ports.some((spec) => INTERVALS?.intervalsOf({ service, spec }) !== undefined);
}
