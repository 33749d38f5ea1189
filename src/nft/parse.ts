import { AppError } from "../base/errors.ts";
import { parseSetSpec } from "./declarations.ts";
import { dataText, valueText } from "./element-text.ts";
import type { NftFamily } from "./json.ts";
import { type Draft, ownFamily, place, splitElement, unwrapKey } from "./place.ts";
import type { Ruleset } from "./ruleset.ts";
import { asList, asNumber, asObject, asTagged, notUnderstood } from "./shape.ts";

/** What `nft -j list ...` printed: a list of objects such as `{"chain": {...}}`. */
export interface Listing {
  readonly objects: readonly unknown[];
}

/** An element that packets put into a dynamic map. */
export interface DynamicElement {
  readonly family: NftFamily;
  readonly map: string;
  /** Canonical text, see {@link ElementSet}. */
  readonly key: string;
  readonly value: string;
  /** Seconds that it lives after its last use, and seconds that are left. */
  readonly timeout: number;
  readonly expires: number;
}

/** Reads the JSON text that nft printed; throws NFT_OUTPUT when it is none. */
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
 * dynamic maps are left out: see {@link dynamicElements}. Throws NFT_OUTPUT naming what it does not know.
 */
export function parseListing(listing: Listing): Ruleset {
  const draft: Draft = {};
  for (const object of listing.objects) {
    const [kind, body] = asTagged(object, "listed object");
    if (kind !== "metainfo") place(draft, kind, body);
  }
  return draft;
}

/** What packets have put into the dynamic maps of a listing (`nft -j list map ip nft-proxy affinity` does, too). */
export function dynamicElements(listing: Listing): readonly DynamicElement[] {
  const found: DynamicElement[] = [];
  for (const object of listing.objects) {
    const [kind, body] = asTagged(object, "listed object");
    if (kind !== "map") continue;
    const map = asObject(body, kind);
    const family = ownFamily(kind, map);
    const spec = parseSetSpec(kind, map);
    if (family === undefined || !spec.dynamic) continue;
    for (const item of asList(map.elem ?? [], "elements")) {
      const { key, value } = splitElement(item, true);
      found.push({
        family,
        map: spec.name,
        key: dataText(unwrapKey(key), spec.key),
        value: valueText(value, spec.value),
        ...lifeOf(key),
      });
    }
  }
  return found;
}

function lifeOf(key: unknown): Pick<DynamicElement, "timeout" | "expires"> {
  const { elem } = asObject(key, "element with a timeout");
  const { timeout, expires } = asObject(elem, "element with a timeout");
  if (timeout === undefined) throw notUnderstood("element without a timeout", key);
  return { timeout: asNumber(timeout, "timeout"), expires: asNumber(expires ?? timeout, "expires") };
}
