import { FAMILY_NAMES } from "../../base/family.ts";
import type { Sample } from "../../base/sample.ts";
import { socketText } from "../../base/text.ts";
import type { TableReader } from "../../kernel/table-reader.ts";
import { serviceLabels } from "../../model/ids.ts";
import type { ServicePort } from "../../model/service-port.ts";
import { type ListedElement, targetText } from "../../nft/elements.ts";
import type { FamilyState } from "../../ruleset/family-state.ts";
import { type FrontendParts, parseFrontendKey, portsText } from "../../ruleset/keys.ts";
import { kindsIn } from "../../ruleset/node-context.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import { ENDPOINTS } from "../../ruleset/sets.ts";
import type { ConnectionLookup } from "../seam/daemon-part.ts";

/**
 * Number of new connections that the map elements of a target have counted since they were created, by
 * {@link idOf}.
 */
type Counts = Map<string, Sample>;

/** The counters of the maps. */
export type ConnectionCounts = Awaited<ReturnType<typeof readConnectionCounts>>;

/** The labels of each count. */
export const LABELS = ["ip_family", "namespace", "service", "port", "protocol", "target"] as const;

/**
 * Reads the counters of maps, with their Services. Skips endpoints without connections, as a node only uses
 * few endpoints of a large cluster.
 * @returns `endpoints`: only those with connections; undefined if they are not counted
 */
export async function readConnectionCounts(
  tables: TableReader,
  { families }: Pick<RulesetState, "families">,
) {
  const frontends: Counts = new Map();
  const endpoints: Counts = new Map();
  const states = Object.values(families);
  for (const state of states) {
    for (const maps of kindsIn(state)) {
      await eachCounter(tables, state, maps.lists, (element) => {
        add(frontends, state, element, frontendTarget(parseFrontendKey(element.key)));
      });
      await eachCounter(tables, state, maps.endpoints, (element) => {
        if ((element.packets ?? 0) > 0) add(endpoints, state, element, targetText(element.value));
      });
    }
  }
  const areCounted = states.some(({ table }) => table.sets.get(ENDPOINTS)?.spec.counter);
  return { frontends, endpoints: areCounted ? endpoints : undefined };
}

async function eachCounter(
  tables: TableReader,
  { table }: FamilyState,
  map: string,
  take: (element: ListedElement) => void,
): Promise<void> {
  const spec = table.sets.get(map)?.spec;
  if (!spec?.counter) return;
  for await (const batch of tables.elements(table.family, spec)) for (const element of batch) take(element);
}

/**
 * Adds the count of an element, unless no service port owns it any more. An endpoint has several: one in each
 * list of its service port, and with some schedulers in each slot.
 */
function add(counts: Counts, state: FamilyState, { key, packets = 0 }: ListedElement, target: string): void {
  const owner = state.ownerOfElement(key);
  if (owner === undefined) return;
  const id = idOf(owner, target);
  const known = counts.get(id);
  counts.set(id, { labels: known?.labels ?? labelsOf(owner, target), value: (known?.value ?? 0) + packets });
}

function idOf({ key }: ServicePort, target: string): string {
  return `${key} ${target}`;
}

function labelsOf(
  { family, service: { name }, spec }: ServicePort,
  target: string,
): Readonly<Record<(typeof LABELS)[number], string>> {
  const port = spec.name === "" ? String(spec.port) : spec.name;
  return { ip_family: FAMILY_NAMES[family], ...serviceLabels(name), port, protocol: spec.protocol, target };
}

/** The label `target` of a frontend: `10.96.0.1:80`, or `nodePort:30080` without an address. */
function frontendTarget({ address, ...ports }: Omit<FrontendParts, "protocol">): string {
  return address === undefined ? `nodePort:${ports.port}` : socketText(address, portsText(ports));
}

/** Finds counts by frontends and endpoints. */
export function connectionLookup({ frontends, endpoints }: ConnectionCounts): ConnectionLookup {
  const toEndpoint = (port: ServicePort, target: string) => endpoints?.get(idOf(port, target))?.value ?? 0;
  return {
    toFrontend: (port, { address, ...ports }) =>
      frontends.get(idOf(port, frontendTarget({ address: address || undefined, ...ports })))?.value,
    // Connections to an interval of ports are counted by the address of the endpoint.
    toEndpoint: (port, address, number) =>
      endpoints && toEndpoint(port, socketText(address, number)) + toEndpoint(port, address),
  };
}
