import { AppError } from "../base/errors.ts";
import type { Nft } from "../kernel/nft.ts";
import { NftStoppedError } from "../kernel/nft-errors.ts";
import { readEndingTargets } from "../kernel/vanished.ts";
import type { Ruleset, Table } from "../nft/ast/ruleset.ts";
import { parseFrontendKey } from "../ruleset/keys.ts";
import { parseId } from "../ruleset/list-ids.ts";
import type { RulesetState } from "../ruleset/ruleset-state.ts";
import { ENDPOINTS, LISTS, VANISHED, VANISHED_MARGIN } from "../ruleset/sets.ts";
import type { VanishedEndpoints } from "./vanished-endpoints.ts";

/**
 * Takes over from the kernel what an earlier process saw: endpoints that had left, with the time that remains for them,
 * and endpoints that it still had and that left since.
 * @param kernel our tables
 * @param state the desired state that is to have them
 */
export async function adoptVanished(
  vanished: VanishedEndpoints,
  nft: Pick<Nft, "listSet">,
  kernel: Ruleset,
  state: RulesetState,
): Promise<void> {
  for (const table of Object.values(kernel)) {
    for (const { target, expires } of await known(nft, table)) {
      vanished.adopt(table.family, target, 1000 * (expires - VANISHED_MARGIN));
    }
    addMissed(vanished, table, state);
  }
  vanished.putInto(state);
}

/** Returns the elements in the kernel, the first to expire first; none where they cannot be read: the sync must not fail for it. */
async function known(nft: Pick<Nft, "listSet">, { family, sets }: Table) {
  if ((sets.get(VANISHED)?.elements.size ?? 0) === 0) return [];
  try {
    return (await readEndingTargets(nft, family, VANISHED)).sort((a, b) => a.expires - b.expires);
  } catch (error) {
    if (error instanceof AppError && !(error instanceof NftStoppedError)) return [];
    throw error;
  }
}

function addMissed(vanished: VanishedEndpoints, { family, sets }: Table, state: RulesetState): void {
  const frontends = new Map<number, string>();
  for (const [frontend, id] of sets.get(LISTS)?.elements ?? []) {
    const { servicePort } = parseId(Number(id)) ?? {};
    if (servicePort !== undefined) frontends.set(servicePort, frontend);
  }
  for (const [key, target] of sets.get(ENDPOINTS)?.elements ?? []) {
    if (vanished.isNamed(family, target)) continue;
    const frontend = frontends.get(parseId(Number.parseInt(key, 10))?.servicePort ?? 0);
    if (frontend === undefined || parseFrontendKey(frontend).protocol !== "tcp") continue;
    const owner = state.families[family]?.ownerOf(frontend);
    vanished.addMissed(family, target, owner === undefined ? [] : [owner.service.name]);
  }
}
