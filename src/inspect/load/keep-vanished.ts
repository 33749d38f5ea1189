import type { Ruleset } from "../../nft/ast/ruleset.ts";
import { VANISHED } from "../../ruleset/sets.ts";
import { allSlicesOf } from "../../sync/vanished-endpoints.ts";
import type { Desired } from "./desired.ts";

/**
 * Takes the vanished endpoints that the kernel has over into a desired state, but for those that an EndpointSlice names
 * again: objects do not tell which endpoints left, only the daemon saw it.
 */
export function keepVanished({ cache, state }: Pick<Desired, "cache" | "state">, kernel: Ruleset): void {
  const found = Object.values(kernel).map(({ family, sets }) => ({
    family,
    targets: [...(sets.get(VANISHED)?.elements.keys() ?? [])],
  }));
  if (found.every(({ targets }) => targets.length === 0)) return;
  const slices = allSlicesOf(cache, () => 0);
  for (const { family, targets } of found) {
    state.families[family]?.setVanished(new Set(targets.filter((target) => !slices.isNamed(family, target))));
  }
}
