import type { ServicePort } from "../model/service-port.ts";
import type { FamilyState } from "./ruleset-state.ts";
import { FRONTEND_MAPS } from "./sets.ts";

/** Tells whose elements are, in one family. */
export interface ElementOwners {
  /** The service ports that an element belongs to: one, several for what is shared, none for what is the node's own. */
  ofElement(set: string, key: string): readonly ServicePort[];
  /** The service ports that a chain of source ranges guards; none for every other chain. */
  ofChain(name: string): readonly ServicePort[];
}

/** The frontend in an element's key, where its map is one of frontends: without the number that may follow it. */
export function frontendOf(set: string, key: string): string {
  return NUMBERED.has(set) ? key.slice(0, key.lastIndexOf(" . ")) : key;
}

/** Maps in which a number follows the frontend. */
const NUMBERED: ReadonlySet<string> = new Set(
  Object.values(FRONTEND_MAPS).flatMap(({ endpoints, affinityIds }) => [endpoints, affinityIds]),
);

/** The owners of what a state holds at this moment. Costs one pass over all contributions. */
export function elementOwners(state: FamilyState): ElementOwners {
  const shared = new Map<string, ServicePort[]>();
  const chains = new Map<string, ServicePort[]>();
  for (const { port, frontends, shared: elements } of state.contributions()) {
    for (const { set, key } of elements) add(shared, `${set} ${key}`, port);
    for (const { key, firewall } of frontends) {
      if (firewall !== undefined && state.ownerOf(key)?.key === port.key) add(chains, firewall.name, port);
    }
  }
  return {
    ofElement: (set, key) => {
      const owner = state.ownerOf(frontendOf(set, key));
      return owner === undefined ? (shared.get(`${set} ${key}`) ?? []) : [owner];
    },
    ofChain: (name) => chains.get(name) ?? [],
  };
}

function add(owners: Map<string, ServicePort[]>, key: string, port: ServicePort): void {
  const known = owners.get(key);
  if (known === undefined) owners.set(key, [port]);
  else if (!known.includes(port)) known.push(port);
}
