import { FAMILIES } from "../../base/family.ts";
import { socketText } from "../../base/text.ts";
import type { Nft } from "../../kernel/nft.ts";
import { type CountedElement, elementCounters, readListing } from "../../nft/canonical/parse.ts";
import { joinParts, splitParts, targetText } from "../../nft/elements.ts";
import type { FamilyState, RulesetState } from "../../ruleset/ruleset-state.ts";
import { FRONTEND_MAPS, type FrontendKind } from "../../ruleset/sets.ts";
import type { ConnectionCount, ConnectionCounts } from "./connection-metrics.ts";

/** Reads the counters of the maps that have them, and says whose they are. Costs a listing of each such map. */
export async function readConnectionCounts(nft: Nft, state: RulesetState): Promise<ConnectionCounts> {
  const frontends: ConnectionCount[] = [];
  const endpoints: ConnectionCount[] = [];
  for (const family of FAMILIES) {
    const ofFamily = state.families[family];
    if (ofFamily === undefined) continue;
    for (const kind of ["service", "nodeport"] as const) {
      const { services, endpoints: targets } = FRONTEND_MAPS[kind];
      for (const counted of await counters(nft, ofFamily, services)) {
        frontends.push(...countOf(ofFamily, kind, counted.key, undefined, counted));
      }
      for (const counted of await counters(nft, ofFamily, targets)) {
        const frontend = joinParts(...splitParts(counted.key).slice(0, -1));
        endpoints.push(...countOf(ofFamily, kind, frontend, counted.value, counted));
      }
    }
  }
  return { frontends, endpoints };
}

async function counters(nft: Nft, { table }: FamilyState, map: string): Promise<readonly CountedElement[]> {
  if (!table.sets.get(map)?.spec.counter) return [];
  const text = await nft.listSet(table.family, "map", map);
  return text === undefined ? [] : elementCounters(readListing(text));
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
