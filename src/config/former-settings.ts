import { FEATURES } from "../features/registry.ts";
import type { FormerSetting } from "../features/seam/feature.ts";

const FORMER = FEATURES.flatMap(({ name, former }) => (former ? [{ ...former, feature: name }] : []));

/**
 * Returns how to say today what a field of the configuration said before `--features`; undefined for another
 * field or value.
 */
export function formerFieldHint(path: string, value: unknown): string | undefined {
  return hintOf((former) => former.path === path && (!("value" in former) || former.value === value));
}

/** The same for a flag that does not exist any more; `name` without dashes. */
export function formerFlagHint(name: string): string | undefined {
  return hintOf((former) => former.flag === name && !("value" in former));
}

function hintOf(isMeant: (former: FormerSetting) => boolean): string | undefined {
  const { feature } = FORMER.find(isMeant) ?? {};
  return feature && `${feature} is off unless --features (nftProxy.features) names it, so leave it out there`;
}
