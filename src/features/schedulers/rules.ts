import type { Family } from "../../base/family.ts";
import type { EndpointSlice } from "../../model/endpoint-slice.ts";
import type { PortOfService } from "../../model/service-port.ts";
import { hash, networkBits, nextNumber, randomNumber } from "../../nft/ast/expression.ts";
import type { Expression } from "../../nft/ast/json.ts";
import { type DrawMethod, RANDOM } from "../../ruleset/draws.ts";
import { sourceAddress } from "../../ruleset/keys.ts";
import type { DrawPart, FamilyContext, RulesetPart } from "../../ruleset/node-context.ts";
import { DRAW_COUNTS, drawCount, drawsOf } from "../../ruleset/setting-grids.ts";
import { defaultScheduler, FEATURE, ownSchedulerOf, type Scheduler, type SliceWeight } from "./scheduler.ts";
import { SLOT_TABLE_SIZES, slotCountOf, slotTable } from "./slot-table.ts";

/** An arbitrary number that is the same on every node and after every restart. */
const HASH_SEED = 0x6e667470;

/** The ways to draw of each scheduler: among slots and, unless it is a hash, endpoints of equal weights. */
export const DRAWS: Readonly<
  Record<Scheduler, { readonly endpoints?: DrawMethod; readonly slots: DrawMethod }>
> = {
  random: { endpoints: RANDOM, slots: slotsMethod("slots", (count) => randomNumber(count, 0)) },
  "round-robin": {
    endpoints: {
      name: "round-robin",
      counts: DRAW_COUNTS,
      numbers: (_, count) => drawsOf(count).map((one) => nextNumber(one, 0)),
    },
    slots: slotsMethod("round-robin-slots", (count) => nextNumber(count, 0)),
  },
  "source-hash": {
    slots: slotsMethod("source-hash", (count, family) => hash(sourceAddress(family), count, HASH_SEED, 0)),
  },
  "flow-hash": {
    slots: slotsMethod("flow-hash", (count, family) => hash(flow(family), count, HASH_SEED, 0)),
  },
};

/** Draws a slot. Each exists. */
function slotsMethod(name: string, slot: (count: number, family: Family) => Expression): DrawMethod {
  return { name, counts: SLOT_TABLE_SIZES, numbers: (family, count) => [slot(count, family)] };
}

/**
 * The addresses and ports of a connection, as bits from the source address on: nft's JSON does not nest
 * concatenations. In packets with IP options or extension headers, these take the place of the ports.
 */
function flow(family: Family): Expression {
  return family === "ip" ? networkBits(96, 96) : networkBits(64, 288);
}

/** The annotation overrides the default of all Services. */
function drawsFor({ service }: Pick<PortOfService, "service">, context: FamilyContext) {
  return DRAWS[ownSchedulerOf(service) ?? defaultScheduler(context)];
}

function weightOf({ features }: EndpointSlice): number {
  return (features?.[FEATURE] as SliceWeight | undefined)?.weight ?? 1;
}

const draws: DrawPart = {
  methods: Object.values(DRAWS)
    .flatMap(({ endpoints = RANDOM, slots }) => [endpoints, slots])
    .filter((method) => method !== RANDOM),
  shareOf: weightOf,
  drawOf: (servicePort, all, context) => {
    const { endpoints, slots } = drawsFor(servicePort, context);
    if (endpoints !== undefined && all.every(({ share }) => share === all[0]?.share))
      return { method: endpoints, count: drawCount(all.length) };
    // A list has weights of 0 only if all its weights are 0.
    const table = slotTable(
      all.map(({ address, port, share }) => ({ address, port, weight: Math.max(1, share) })),
    );
    return { method: slots, count: table.length, slots: table };
  },
  // A list has slots, or a number for each endpoint.
  mostNumbers: (port, { sum, lightest, heaviest }, count, context) => {
    const hasSlots = drawsFor(port, context).endpoints === undefined || lightest < heaviest;
    return hasSlots && count > 1 ? Math.max(slotCountOf({ count, sum, lightest }), count) : count;
  },
};

export const rules: RulesetPart = { name: FEATURE, draws };
