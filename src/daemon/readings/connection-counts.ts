import type { Clock } from "../../base/clock.ts";
import { FailureLog } from "../../base/failure-log.ts";
import type { Family } from "../../base/family.ts";
import type { Logger } from "../../base/logger.ts";
import { socketText } from "../../base/text.ts";
import { FRONTEND_KINDS } from "../../features/frontends.ts";
import { cachedReading } from "../../kernel/cached-reading.ts";
import type { TableReader } from "../../kernel/table-reader.ts";
import type { Protocol } from "../../model/ids.ts";
import { type ListedElement, targetText } from "../../nft/elements.ts";
import type { FamilyState } from "../../ruleset/family-state.ts";
import { type FrontendParts, parseFrontendKey, portsText } from "../../ruleset/keys.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import { ENDPOINTS } from "../../ruleset/sets.ts";

/** Number of new connections that a map element has counted since it was created. */
export interface ConnectionCount {
  readonly family: Family;
  readonly namespace: string;
  readonly service: string;
  /** The port's name, or its number if it has none. */
  readonly port: string;
  readonly protocol: Protocol;
  /** See {@link frontendTarget}; or address and port of the endpoint. */
  readonly target: string;
  readonly connections: number;
}

/** The counters of the maps. */
export interface ConnectionCounts {
  readonly frontends: readonly ConnectionCount[];
  /** Only endpoints with connections; undefined if endpoints are not counted. */
  readonly endpoints: readonly ConnectionCount[] | undefined;
}

/** Minimum time between readings of the counters. Milliseconds. */
const COUNTERS_MAX_AGE = 5000;

/** Returns {@link readConnectionCounts} with a cache. The function never rejects. */
export function connectionCounts(
  tables: TableReader,
  state: () => RulesetState,
  clock: Clock,
  logger: Logger,
): () => Promise<ConnectionCounts> {
  const failures = new FailureLog(
    { logger, clock },
    "cannot read the connection counters",
    "the connection counters can be read again",
  );
  const first: ConnectionCounts = { frontends: [], endpoints: undefined };
  return cachedReading(first, () => readConnectionCounts(tables, state()), COUNTERS_MAX_AGE, clock, failures);
}

/**
 * Reads the counters of maps, with their Services. Skips endpoints without connections, as a node only uses
 * few endpoints of a large cluster.
 */
export async function readConnectionCounts(
  tables: TableReader,
  state: RulesetState,
): Promise<ConnectionCounts> {
  const frontends: ConnectionCount[] = [];
  let endpoints: ConnectionCount[] | undefined;
  for (const ofFamily of Object.values(state.families)) {
    if (ofFamily.table.sets.get(ENDPOINTS)?.spec.counter) endpoints ??= [];
    for (const maps of FRONTEND_KINDS) {
      await eachCounter(tables, ofFamily, maps.lists, (counted) => {
        frontends.push(...countOf(ofFamily, counted, frontendTarget(parseFrontendKey(counted.key))));
      });
      await eachCounter(tables, ofFamily, maps.endpoints, (counted) => {
        if ((counted.packets ?? 0) === 0) return;
        endpoints?.push(...countOf(ofFamily, counted, targetText(counted.value)));
      });
    }
  }
  return { frontends, endpoints };
}

async function eachCounter(
  tables: TableReader,
  { table }: FamilyState,
  map: string,
  take: (counted: ListedElement) => void,
): Promise<void> {
  const spec = table.sets.get(map)?.spec;
  if (!spec?.counter) return;
  for await (const batch of tables.elements(table.family, spec)) for (const counted of batch) take(counted);
}

/** Empty for an element that no service port owns any more. */
function countOf(state: FamilyState, { key, packets = 0 }: ListedElement, target: string): ConnectionCount[] {
  const owner = state.ownerOfElement(key);
  if (owner === undefined) return [];
  const [namespace = "", service = ""] = owner.service.name.split("/");
  const { name, port, protocol } = owner.spec;
  return [
    {
      family: state.table.family,
      namespace,
      service,
      port: name === "" ? String(port) : name,
      protocol,
      target,
      connections: packets,
    },
  ];
}

/**
 * The {@link ConnectionCount.target} of a frontend: `10.96.0.1:80`, or `nodePort:30080` without an address.
 */
export function frontendTarget({ address, ...ports }: Omit<FrontendParts, "protocol">): string {
  return address === undefined ? `nodePort:${ports.port}` : socketText(address, portsText(ports));
}
