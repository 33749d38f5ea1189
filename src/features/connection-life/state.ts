import { type Clock, wallTime } from "../../base/clock.ts";
import type { ServiceName } from "../../model/ids.ts";
import type { Ruleset, Table } from "../../nft/ast/ruleset.ts";
import { parseFrontendKey } from "../../ruleset/keys.ts";
import { parseId } from "../../ruleset/list-ids.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import { ENDPOINTS, LISTS } from "../../ruleset/sets.ts";
import type { RemainingTimes, StatePart, StatePartHost } from "../seam/state-part.ts";
import type { DrainingEndpoint } from "./draining-endpoints.ts";
import { FEATURE, isResetByDefault, VANISHED, VANISHED_MARGIN } from "./rules.ts";
import { VANISHED_DELAY, type VanishedEndpoint, VanishedEndpoints } from "./vanished-endpoints.ts";

/** What the daemon shows of endpoints, with times in milliseconds since 1970. */
export interface ShownEndpoints {
  /** Those whose clients are reset, in the order in which they left. */
  readonly held: readonly VanishedEndpoint[];
  /** Terminating endpoints of Services with a drain timeout. */
  readonly draining: readonly DrainingEndpoint[];
}

/** Makes the part of the desired state. */
export function createState({ cache, clock, settings, isFinal }: StatePartHost): StatePart {
  const vanished = new VanishedEndpoints({
    cache,
    now: () => clock.monotonic(),
    delayMs: isFinal ? 0 : VANISHED_DELAY,
    byDefault: isResetByDefault(settings),
  });
  return statePart(vanished, clock);
}

/** Returns the part of the desired state for a tracker of endpoints. */
export function statePart(vanished: VanishedEndpoints, clock: Pick<Clock, "now" | "monotonic">): StatePart {
  const { draining } = vanished;
  return {
    name: FEATURE,
    update: (services) => vanished.update(services),
    putInto: (state) => vanished.putInto(state),
    adopt: (kernel, state, remaining) => adopt(vanished, kernel, state, remaining),
    keep: (kernel, state) => keep(vanished, kernel, state),
    nextChangeAt: () => vanished.nextChangeAt(),
    flows: {
      endedIn: (state) => draining.drainedBy(state),
      nextAfter: (moment) => draining.nextDueAfter(moment),
    },
    shown: (): ShownEndpoints => ({
      held: vanished.beingReset().map((one) => ({ ...one, leftAt: wallTime(clock, one.leftAt) })),
      draining: draining
        .endpoints()
        .map((one) => ({ ...one, since: wallTime(clock, one.since), dueAt: wallTime(clock, one.dueAt) })),
    }),
  };
}

/**
 * Continues for endpoints that an earlier process saw leave, for the rest of their time, and begins for those
 * that left after it ended.
 */
async function adopt(
  vanished: VanishedEndpoints,
  kernel: Ruleset,
  state: RulesetState,
  remaining: RemainingTimes,
): Promise<void> {
  for (const table of vanished.isNeeded ? Object.values(kernel) : []) {
    const { family, sets } = table;
    const set = sets.get(VANISHED);
    const times = set === undefined || set.elements.size === 0 ? [] : await remaining(family, set.spec);
    const reset = new Map(Array.from(times, ([target, time]) => [target, time - 1000 * VANISHED_MARGIN]));
    vanished.adopt(family, reset, missedIn(table, state));
  }
  vanished.putInto(state);
}

/** Returns the TCP endpoints of a table that no list of the desired state contains, with their Services. */
function missedIn(
  { family, sets }: Table,
  { families }: RulesetState,
): ReadonlyMap<string, readonly ServiceName[]> {
  const frontends = new Map<number, string>();
  for (const [frontend, id] of sets.get(LISTS)?.elements ?? []) {
    const { servicePort } = parseId(Number(id)) ?? {};
    if (servicePort !== undefined) frontends.set(servicePort, frontend);
  }
  const present = new Set(families[family]?.table.sets.get(ENDPOINTS)?.elements.values());
  const missed = new Map<string, readonly ServiceName[]>();
  for (const [key, target] of sets.get(ENDPOINTS)?.elements ?? []) {
    if (present.has(target)) continue;
    const frontend = frontends.get(parseId(Number.parseInt(key, 10))?.servicePort ?? 0);
    if (frontend === undefined || parseFrontendKey(frontend).protocol !== "tcp") continue;
    const owner = families[family]?.ownerOf(frontend);
    const services = [...(missed.get(target) ?? []), ...(owner === undefined ? [] : [owner.service.name])];
    missed.set(target, [...new Set(services)]);
  }
  return missed;
}

/**
 * Copies the kernel's vanished endpoints into a desired state, except those whose connections must no longer
 * be reset. Objects do not say which endpoints left, or since when they terminate; only the daemon knows.
 */
function keep(
  vanished: VanishedEndpoints,
  kernel: Ruleset,
  { families }: Pick<RulesetState, "families">,
): void {
  for (const { family, sets } of Object.values(kernel)) {
    const targets = [...(sets.get(VANISHED)?.elements.keys() ?? [])];
    if (targets.length > 0) families[family]?.setKeys(FEATURE, vanished.resettable(targets));
  }
}
