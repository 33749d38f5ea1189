import { FAMILIES } from "../../base/family.ts";
import { type ServiceName, serviceOf } from "../../model/ids.ts";
import type { Service } from "../../model/service.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import { NO_ENDPOINTS } from "../../ruleset/sets.ts";
import type { StatusQuery } from "./status-query.ts";
import type { DaemonStatus } from "./status-source.ts";

/** Services on one page. */
const SERVICES_PER_PAGE = 50;

/** One page of the Services that were asked for. */
export interface ServiceList {
  readonly names: readonly ServiceName[];
  /** How many there are on all pages. */
  readonly matching: number;
  /** From 1, at most `pages`. */
  readonly page: number;
  /** 1 at least. */
  readonly pages: number;
}

/** Finds the Services that were asked for, by name. */
export function listServices(
  { cache }: DaemonStatus,
  problems: ReadonlySet<string>,
  { text, problemsOnly, page, service }: StatusQuery,
): ServiceList {
  const names = cache.serviceNames().filter((name) => {
    if (service !== "") return name === service;
    if (problemsOnly && !problems.has(name)) return false;
    const known = cache.service(name);
    return known !== undefined && (text === "" || describes(text, known));
  });
  const pages = Math.max(1, Math.ceil(names.length / SERVICES_PER_PAGE));
  const shown = Math.min(page, pages);
  const start = (shown - 1) * SERVICES_PER_PAGE;
  return { names: names.slice(start, start + SERVICES_PER_PAGE), matching: names.length, page: shown, pages };
}

/** The Services that need attention: a frontend without endpoints or lost to another, excluded, or not programmed yet. */
export function servicesWithProblems({
  state,
  quarantined,
  pending,
}: Pick<DaemonStatus, "state" | "quarantined" | "pending">): Set<string> {
  const losers = state.conflicts().flatMap((conflict) => conflict.losers.map(({ service }) => service.name));
  return new Set([
    ...withoutEndpoints(state),
    ...losers,
    ...[...quarantined.keys()].map(serviceOf),
    ...pending.services,
  ]);
}

function withoutEndpoints({ families }: RulesetState): string[] {
  const found: string[] = [];
  for (const state of Object.values(families)) {
    for (const key of state.table.sets.get(NO_ENDPOINTS)?.elements.keys() ?? []) {
      const owner = state.ownerOf(key);
      if (owner !== undefined) found.push(owner.service.name);
    }
  }
  return found;
}

/** By its name, an address or a number of a port. */
function describes(text: string, service: Service): boolean {
  if (service.name.includes(text)) return true;
  if (service.ports.some(({ name, port, nodePort }) => name === text || `${port}` === text || `${nodePort}` === text)) {
    return true;
  }
  return FAMILIES.some((family) =>
    [service.clusterIPs[family], ...service.externalIPs[family], ...service.loadBalancerIPs[family]].some((address) =>
      address.includes(text),
    ),
  );
}
