import type { Service } from "../model/service.ts";
import { type ChainRole, chainRole as roleOf } from "../ruleset/chain-roles.ts";
import { portEquivalent as equivalentOf, type FrontendKind } from "../ruleset/frontend-kinds.ts";
import {
  drawMethodsIn,
  type FamilyContext,
  type IntervalFrontends,
  intervalsIn,
  kindsIn,
} from "../ruleset/node-context.ts";
import { FEATURES } from "./registry.ts";
import type { Feature } from "./seam/feature.ts";

/** The feature that adds intervals of ports to the frontends of service ports, if any. */
export const INTERVAL_FEATURE: Feature | undefined = FEATURES.find(({ ruleset }) => ruleset?.intervals);

/** What all features add to tables, enabled or not. */
export const ALL_PARTS: Pick<FamilyContext, "features"> = {
  features: FEATURES.flatMap(({ ruleset }) => ruleset ?? []),
};

/** The intervals of ports that it adds, enabled or not. */
export const INTERVALS: IntervalFrontends | undefined = intervalsIn(ALL_PARTS);

/** The kinds of frontends that a table can have, in the order in which rules look them up. */
export const FRONTEND_KINDS: readonly FrontendKind[] = kindsIn(ALL_PARTS);

/** The equivalent for ports of a set or chain for intervals; every other name is returned unchanged. */
export function portEquivalent(name: string): string {
  return equivalentOf(name, FRONTEND_KINDS);
}

/** The purpose of one of our chains, of any kind of frontends; undefined for a name that is not ours. */
export function chainRole(name: string): ChainRole | undefined {
  return roleOf(portEquivalent(name), DRAW_METHODS);
}

const DRAW_METHODS = drawMethodsIn(ALL_PARTS);

/** Whether a port of a Service has intervals of ports. */
export function hasIntervals(service: Service): boolean {
  return service.ports.some((spec) => INTERVALS?.intervalsOf({ service, spec }) !== undefined);
}
