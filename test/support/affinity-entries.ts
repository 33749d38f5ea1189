import { familyOf } from "../../src/model/ip.ts";
import type { Table } from "../../src/nft/ast/ruleset.ts";
import { formatClassid } from "../../src/nft/canonical/constant.ts";
import { parseSetSpec } from "../../src/nft/canonical/declarations.ts";
import { listedObjects } from "../../src/nft/canonical/parse.ts";
import { asList } from "../../src/nft/canonical/shape.ts";
import { joinParts, type ListedElement, splitParts } from "../../src/nft/elements.ts";
import { parseId } from "../../src/ruleset/list-ids.ts";
import { setSpecs } from "../../src/ruleset/set-specs.ts";
import { AFFINITY, ENDPOINTS, LISTS } from "../../src/ruleset/sets.ts";
import { familyContext } from "./build.ts";
import { listedElement } from "./nft-tables.ts";

/**
 * Returns the key of a client's affinity entry in nft's syntax.
 * @param servicePort the id of a service port's lists
 */
export function affinityKey(client: string, servicePort: number): string {
  const spec = setSpecs(familyContext(familyOf(client))).find(({ name }) => name === AFFINITY);
  return joinParts(
    ...(spec?.key ?? []).map((type) => (type === "classid" ? formatClassid(servicePort) : client)),
  );
}

/** Parses such a key in canonical form. */
export function parseAffinityKey(key: string): { readonly client: string; readonly servicePort: number } {
  const parts = splitParts(key);
  const isId = (part: string) => /^\d+$/.test(part);
  return { client: parts.find((part) => !isId(part)) ?? "", servicePort: Number(parts.find(isId)) };
}

/**
 * Returns the id of the service port that has a frontend in a table, and the endpoint of each of its endpoint
 * ids.
 */
export function endpointIdsOf(
  { sets }: Table,
  frontend: string,
): { readonly servicePort: number; readonly endpoints: ReadonlyMap<number, string> } {
  const servicePort = parseId(Number(sets.get(LISTS)?.elements.get(frontend) ?? 0))?.servicePort;
  if (servicePort === undefined) throw new Error(`no list for ${frontend}`);
  const endpoints = [...(sets.get(ENDPOINTS)?.elements ?? [])].flatMap(([key, target]) => {
    const id = Number.parseInt(key, 10);
    return parseId(id)?.servicePort === servicePort ? [[id, target] as const] : [];
  });
  return { servicePort, endpoints: new Map(endpoints) };
}

/** Returns the affinity entries. @param listing of the affinity map, as JSON */
export function affinityEntries(listing: string): readonly ListedElement[] {
  return listedObjects(listing).flatMap(({ body }) => {
    const spec = parseSetSpec("map", body);
    return asList(body.elem ?? [], "elements").map((item) => listedElement(spec, item));
  });
}

/**
 * Returns the affinity entries of the service port that has a frontend, from clients to the address and port
 * of their endpoint.
 * @param listing of the affinity map, as JSON
 */
export function rememberedEndpoints(
  table: Table,
  listing: string,
  frontend: string,
): ReadonlyMap<string, string> {
  const { servicePort, endpoints } = endpointIdsOf(table, frontend);
  const entries = affinityEntries(listing).map((entry) => ({ ...entry, ...parseAffinityKey(entry.key) }));
  const own = entries.filter((entry) => entry.servicePort === servicePort);
  return new Map(
    own.map(({ client, value }) => [client, endpoints.get(Number(value)) ?? `nothing (${value})`]),
  );
}
