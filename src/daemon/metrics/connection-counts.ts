import { socketText } from "../../base/text.ts";
import type { Nft } from "../../kernel/nft.ts";
import { listItems } from "../../kernel/read-kernel.ts";
import { type CountedElement, parseCountedElement } from "../../nft/canonical/parse.ts";
import { joinParts, splitParts, targetText } from "../../nft/elements.ts";
import type { FamilyState } from "../../ruleset/family-state.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import { FRONTEND_MAPS, type FrontendKind } from "../../ruleset/sets.ts";
import type { ConnectionCount, ConnectionCounts } from "./connection-metrics.ts";

/**
 * Reads the counters of the maps that have them, and the Services that they belong to. Costs a listing of each such map, which
 * is read while nft prints it. Endpoints without a connection are not kept: a node uses few of a large cluster's.
 */
export async function readConnectionCounts(nft: Nft, state: RulesetState): Promise<ConnectionCounts> {
  const frontends: ConnectionCount[] = [];
  let endpoints: ConnectionCount[] | undefined;
  for (const ofFamily of Object.values(state.families)) {
    for (const kind of ["service", "nodeport"] as const) {
      const maps = FRONTEND_MAPS[kind];
      await eachCounter(nft, ofFamily, maps.services, (counted) => {
        frontends.push(...countOf(ofFamily, kind, counted.key, undefined, counted));
      });
      if (ofFamily.table.sets.get(maps.endpoints)?.spec.counter) endpoints ??= [];
      await eachCounter(nft, ofFamily, maps.endpoints, (counted) => {
        if (counted.packets === 0) return;
        const frontend = joinParts(...splitParts(counted.key).slice(0, -1));
        endpoints?.push(...countOf(ofFamily, kind, frontend, counted.value, counted));
      });
    }
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
  kind: FrontendKind,
  frontend: string,
  endpoint: string | undefined,
  { packets }: CountedElement,
): ConnectionCount[] {
  const owner = state.ownerOf(frontend);
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
      target: endpoint === undefined ? frontendText(kind, frontend) : targetText(endpoint),
      connections: packets,
    },
  ];
}

function frontendText(kind: FrontendKind, frontend: string): string {
  const parts = splitParts(frontend);
  return kind === "nodeport" ? `nodePort:${parts.at(-1)}` : socketText(parts[0] ?? "", parts.at(-1) ?? "");
}
