import type { ServicePort } from "../model/service-port.ts";
import type { FamilyState } from "./family-state.ts";
import { frontendOfElement } from "./sets.ts";

/** Finds the service ports that elements and chains of one family belong to. */
export interface ElementOwners {
  /** The service ports that an element belongs to: one, several for what is shared, none for what is the node's own. */
  ofElement(set: string, key: string): readonly ServicePort[];
  /** The service ports that a chain of source ranges guards; none for every other chain. */
  ofChain(name: string): readonly ServicePort[];
}

/** The owners of the elements and chains that a state holds now. Costs one pass over the rules of all service ports. */
export function elementOwners(state: FamilyState): ElementOwners {
  const shared = new Map<string, ServicePort[]>();
  const chains = new Map<string, ServicePort[]>();
  for (const { port, frontends, shared: elements } of state.allServicePortRules()) {
    for (const { set, key } of elements) add(shared, `${set} ${key}`, port);
    for (const { firewall } of frontends) if (firewall !== undefined) add(chains, firewall.name, port);
  }
  return {
    ofElement: (set, key) => {
      const owner = state.ownerOf(frontendOfElement(set, key));
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
