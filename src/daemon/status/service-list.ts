import { FAMILIES } from "../../base/family.ts";
import { type ServiceName, serviceOf } from "../../model/ids.ts";
import { addressesOf, hasFamily, type Service } from "../../model/service.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import { NO_ENDPOINTS } from "../../ruleset/sets.ts";
import type { DaemonStatus } from "./daemon-status.ts";

/** The query of the status page. */
export type StatusQuery = Readonly<ReturnType<typeof readStatusQuery>>;

/** Longer than any address or name. Characters. */
const LONGEST_TEXT = 300;

/** Choices of the refresh period, seconds. */
export const REFRESH_PERIODS: readonly number[] = [0, 5, 30, 60];

/** Long enough to type a filter or read an opened list; seconds. */
export const DEFAULT_REFRESH = 30;

/** Reads the query of a URL and ignores invalid parameters. */
export function readStatusQuery(query: URLSearchParams) {
  const page = Number(query.get("page"));
  const refresh = Number(query.get("refresh") ?? DEFAULT_REFRESH);
  return {
    /** Lower case, trimmed; "" for no filter. */
    text: (query.get("q") ?? "").slice(0, LONGEST_TEXT).trim().toLowerCase(),
    /** Only Services with problems. */
    problemsOnly: query.get("show") === "problems",
    /** From 1. */
    page: Number.isSafeInteger(page) && page > 0 ? page : 1,
    /** Seconds until the browser loads the page again; 0 for never. */
    refresh: REFRESH_PERIODS.includes(refresh) ? refresh : DEFAULT_REFRESH,
    /** The Service whose own page is shown, `namespace/name`; "" for the list. */
    service: (query.get("service") ?? "").slice(0, LONGEST_TEXT),
  };
}

/** Returns the link to a page with changed parameters: `/?q=cart&page=2`. */
export function statusLink(query: StatusQuery, change: Partial<StatusQuery>): string {
  const { text, problemsOnly, page, refresh, service } = { ...query, ...change };
  const parameters = new URLSearchParams({
    ...(text === "" ? {} : { q: text }),
    ...(problemsOnly ? { show: "problems" } : {}),
    ...(page === 1 ? {} : { page: String(page) }),
    ...(refresh === DEFAULT_REFRESH ? {} : { refresh: String(refresh) }),
    ...(service === "" ? {} : { service }),
  });
  return parameters.size === 0 ? "/" : `/?${parameters}`;
}

/** Number of service ports on one page. A Service may have 65,535. */
const PORTS_PER_PAGE = 50;

/** The service ports of a Service on one page, by index. */
export interface ListedService {
  readonly name: ServiceName;
  readonly from: number;
  /** The index after the last. */
  readonly to: number;
  /** Number of its service ports. */
  readonly ports: number;
}

/** One page of the Services that match a query. */
export type ServiceList = ReturnType<typeof listServices>;

/** Finds the Services that match a query, sorted by name. */
export function listServices(
  { cache }: DaemonStatus,
  problems: ReadonlySet<string>,
  { text, problemsOnly, page, service }: StatusQuery,
) {
  const names = cache.serviceNames().filter((name) => {
    if (service !== "") return name === service;
    if (problemsOnly && !problems.has(name)) return false;
    const known = cache.service(name);
    return known !== undefined && (text === "" || describes(text, known));
  });
  const counts = names.map((name) => countPorts(cache.service(name)));
  const pages = Math.max(1, Math.ceil(counts.reduce((sum, count) => sum + count, 0) / PORTS_PER_PAGE));
  const shown = Math.min(page, pages);
  const services: ListedService[] = [];
  let first = (1 - shown) * PORTS_PER_PAGE;
  for (const [index, name] of names.entries()) {
    const ports = counts[index] ?? 0;
    const [from, to] = [Math.max(0, -first), Math.min(ports, PORTS_PER_PAGE - first)];
    if (from < to) services.push({ name, from, to, ports });
    first += ports;
  }
  return {
    services,
    /** Number of Services on all pages. */
    matching: names.length,
    /** From 1, at most `pages`. */
    page: shown,
    /** At least 1. */
    pages,
  };
}

/** Counts the service ports of a Service in both families. */
function countPorts(service: Service | undefined): number {
  if (service === undefined) return 0;
  return service.ports.length * FAMILIES.filter((family) => hasFamily(service, family)).length;
}

/**
 * Returns the Services that need attention: without endpoints, in conflict with another, quarantined, or not
 * programmed yet.
 */
export function servicesWithProblems({
  state,
  quarantined,
  pending,
}: Pick<DaemonStatus, "state" | "quarantined" | "pending">): Set<string> {
  return new Set([
    ...withoutEndpoints(state),
    ...state.losingServices(),
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

/** Whether a Service has a text in its name or an address, or as a port. */
function describes(text: string, service: Service): boolean {
  return (
    [service.name, ...addressesOf(service)].some((one) => one.includes(text)) ||
    service.ports.some(({ name, port, nodePort }) => [name, `${port}`, `${nodePort}`].includes(text))
  );
}
