import { AppError } from "../../base/errors.ts";
import type { Family } from "../../base/family.ts";
import type { Ruleset, SetSpec } from "../ast/ruleset.ts";
import type { TimedElement } from "../elements.ts";
import { keyText, valueText } from "../text/element-text.ts";
import { parseSetSpec } from "./declarations.ts";
import { type Draft, ownFamily, place, splitElement, unwrapKey } from "./place.ts";
import { asList, asNumber, asObject, asTagged, type JsonObject, notUnderstood } from "./shape.ts";

/** The output of `nft -j list ...`: a list of objects such as `{"chain": {...}}`. */
export interface Listing {
  readonly objects: readonly unknown[];
}

/** An element that packets put into a dynamic map, and which. Key and value are canonical text. */
export interface DynamicElement extends TimedElement {
  readonly family: Family;
  readonly map: string;
}

/** Reads the JSON text that nft printed. @throws AppError NFT_OUTPUT for other text */
export function readListing(text: string): Listing {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw new AppError("NFT_OUTPUT", "nft printed something that is not JSON", {
      cause,
      evidence: { output: text.slice(0, 300) },
    });
  }
  return { objects: asList(asObject(json, "listing").nftables, "listing") };
}

/**
 * The canonical ruleset of a listing (`nft -j list table ip nft-proxy`, terse or not). Elements of
 * dynamic maps are excluded: see {@link dynamicElements}.
 * @throws AppError NFT_OUTPUT that quotes the part that is not understood
 */
export function parseListing(listing: Listing): Ruleset {
  const draft: Draft = {};
  for (const object of listing.objects) {
    const [kind, body] = asTagged(object, "listed object");
    if (kind !== "metainfo") place(draft, kind, body);
  }
  return draft;
}

/** The elements that packets have put into the dynamic maps of a listing (`nft -j list map ip nft-proxy affinity` does, too). */
export function dynamicElements(listing: Listing): readonly DynamicElement[] {
  const found: DynamicElement[] = [];
  forEachMapElement(listing, ({ family, spec, key, value, properties }) => {
    if (spec.dynamic) found.push({ family, map: spec.name, key, value, ...lifeOf(properties) });
  });
  return found;
}

/** An element of a map that counts what it matched. */
export interface CountedElement {
  /** Canonical text, see {@link ElementSet}. */
  readonly key: string;
  readonly value: string;
  /** Packets that matched since the element was made; in a nat chain: connections. */
  readonly packets: number;
}

/** A listed element of a map with its counter; undefined when it has none. @throws AppError NFT_OUTPUT */
export function parseCountedElement(spec: SetSpec, item: unknown): CountedElement | undefined {
  const { key, value } = splitElement(item, true);
  const { counter } = propertiesOf(key);
  if (counter === undefined) return undefined;
  const packets = asNumber(asObject(counter, "counter").packets, "packets");
  return { key: keyText(unwrapKey(key), spec), value: valueText(value, spec.value), packets };
}

interface MapElement {
  readonly family: Family;
  readonly spec: SetSpec;
  readonly key: string;
  readonly value: string;
  /** Its time-out, counter and whatever else stands beside the key. */
  readonly properties: JsonObject;
}

function forEachMapElement(listing: Listing, use: (element: MapElement) => void): void {
  for (const object of listing.objects) {
    const [kind, body] = asTagged(object, "listed object");
    if (kind !== "map") continue;
    const map = asObject(body, kind);
    const family = ownFamily(kind, map);
    if (family === undefined) continue;
    const spec = parseSetSpec(kind, map);
    for (const item of asList(map.elem ?? [], "elements")) {
      const split = splitElement(item, true);
      const key = keyText(unwrapKey(split.key), spec);
      use({ family, spec, key, value: valueText(split.value, spec.value), properties: propertiesOf(split.key) });
    }
  }
}

function propertiesOf(key: unknown): JsonObject {
  return typeof key === "object" && key !== null && "elem" in key ? asObject(key.elem, "element") : {};
}

function lifeOf({ timeout, expires }: JsonObject): Pick<DynamicElement, "timeout" | "expires"> {
  if (timeout === undefined) throw notUnderstood("element without a timeout", timeout);
  return { timeout: asNumber(timeout, "timeout"), expires: asNumber(expires ?? timeout, "expires") };
}
