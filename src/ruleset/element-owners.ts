import type { ServicePort } from "../model/service-port.ts";
import type { FamilyState } from "./family-state.ts";

/** Finds the service ports that elements and chains of one family belong to. */
export interface ElementOwners {
  /** The service ports that an element belongs to: one, several for what is shared, none for what is the node's own. */
  ofElement(set: string, key: string): readonly ServicePort[];
  /** The service ports that a chain or set of source ranges guards; none for every other chain and set. */
  ofPart(name: string): readonly ServicePort[];
}

/** The owners of the elements and chains that a state holds now. Costs one pass over the rules of all service ports. */
export function elementOwners(state: FamilyState): ElementOwners {
  const shared = new Map<string, ServicePort[]>();
  const parts = new Map<string, ServicePort[]>();
  for (const { port, frontends, shared: elements } of state.allServicePortRules()) {
    for (const { set, key } of elements) add(shared, `${set} ${key}`, port);
    for (const { guard } of frontends) {
      if (guard === undefined) continue;
      add(parts, guard.chain.name, port);
      add(parts, guard.set.name, port);
    }
  }
  return {
    ofElement: (set, key) => {
      const owner = state.ownerOfElement(set, key);
      return owner === undefined ? (shared.get(`${set} ${key}`) ?? parts.get(set) ?? []) : [owner];
    },
    ofPart: (name) => parts.get(name) ?? [],
  };
}

function add(owners: Map<string, ServicePort[]>, key: string, port: ServicePort): void {
  const known = owners.get(key);
  if (known === undefined) owners.set(key, [port]);
  else if (!known.includes(port)) known.push(port);
}
