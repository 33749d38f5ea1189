import { socketText } from "../../base/text.ts";
import type { Nft } from "../../kernel/nft.ts";
import { listItems } from "../../kernel/read-kernel.ts";
import { type CountedElement, parseCountedElement } from "../../nft/canonical/parse.ts";
import { targetText } from "../../nft/elements.ts";
import type { FamilyState } from "../../ruleset/family-state.ts";
import { parseFrontendKey } from "../../ruleset/keys.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import { ENDPOINTS, LISTS } from "../../ruleset/sets.ts";
import type { ConnectionCount, ConnectionCounts } from "./connection-metrics.ts";

/**
 * Reads the counters of the maps that have them, and the Services that they belong to. Costs a listing of each such map, which
 * is read while nft prints it. Endpoints without a connection are not kept: a node uses few of a large cluster's.
 */
export async function readConnectionCounts(nft: Nft, state: RulesetState): Promise<ConnectionCounts> {
  const frontends: ConnectionCount[] = [];
  let endpoints: ConnectionCount[] | undefined;
  for (const ofFamily of Object.values(state.families)) {
    await eachCounter(nft, ofFamily, LISTS, (counted) => {
      frontends.push(...countOf(ofFamily, LISTS, counted, frontendText(counted.key)));
    });
    if (ofFamily.table.sets.get(ENDPOINTS)?.spec.counter) endpoints ??= [];
    await eachCounter(nft, ofFamily, ENDPOINTS, (counted) => {
      if (counted.packets > 0) endpoints?.push(...countOf(ofFamily, ENDPOINTS, counted, targetText(counted.value)));
    });
  }
  return { frontends, endpoints };
}

async function eachCounter(
  nft: Nft,
  { table }: FamilyState,
  map: string,
  take: (counted: CountedElement) => void,
): Promise<void> {
  const spec = table.sets.get(map)?.spec;
  if (!spec?.counter) return;
  await listItems(nft, table.family, spec, (item) => {
    const counted = parseCountedElement(spec, item);
    if (counted !== undefined) take(counted);
  });
}

/** Nothing for an element that is nobody's any more. */
function countOf(
  state: FamilyState,
  map: typeof LISTS | typeof ENDPOINTS,
  { key, packets }: CountedElement,
  target: string,
): ConnectionCount[] {
  const owner = state.ownerOfElement(map, key);
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

function frontendText(key: string): string {
  const { address, port } = parseFrontendKey(key);
  return address === undefined ? `nodePort:${port}` : socketText(address, port);
}
