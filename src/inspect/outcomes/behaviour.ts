import type { DynamicEntry, PreparedTables } from "../../trace/evaluate.ts";
import { evaluatePrepared } from "../../trace/evaluate.ts";
import { type Outcome, summarize, type WeightedDestination } from "../../trace/outcome.ts";
import { familyOfPacket, type Host, type Packet } from "../../trace/packet.ts";

/** The outcome of the connections of one client to one frontend. */
export interface Behaviour {
  readonly result: "served" | "not-handled" | "refused" | "dropped" | "varies" | "not-understood";
  /** Shares from 0 to 1; sorted. */
  readonly destinations: readonly WeightedDestination[];
  readonly refused: number;
  readonly dropped: number;
  /** Seconds for which the client keeps its endpoint, on average over the endpoints; 0 without session affinity. */
  readonly affinitySeconds: number;
  /** The share of returning clients that reach the same endpoint, 0 to 1; 0 without session affinity. */
  readonly returning: number;
}

/** As many of the possible endpoints of a sticky client are followed to its second connection. */
const MOST_RETURNS = 32;

/** Evaluates a client's first connection, and with session affinity its second one. */
export function behaviourOf(tables: PreparedTables, host: Host, packet: Packet): Behaviour {
  const outcomes = evaluatePrepared(tables, host, packet);
  const { destinations, refused, dropped, notUnderstood, sticky } = summarize(outcomes);
  return {
    result: resultOf(destinations, refused, dropped, notUnderstood),
    destinations: destinations.map((one) => ({ ...one, probability: rounded(one.probability) })),
    refused: rounded(refused),
    dropped: rounded(dropped),
    affinitySeconds: rounded(meanTimeout(outcomes)),
    returning: sticky ? rounded(returningShare(tables, host, packet, outcomes)) : 0,
  };
}

function meanTimeout(outcomes: readonly Outcome[]): number {
  const timeoutOf = ({ kind, updates }: Outcome) => (kind === "delivered" ? (updates.at(-1)?.timeout ?? 0) : 0);
  return outcomes.reduce((sum, outcome) => sum + outcome.probability * timeoutOf(outcome), 0);
}

function resultOf(
  destinations: readonly WeightedDestination[],
  refused: number,
  dropped: number,
  notUnderstood: number,
): Behaviour["result"] {
  if (notUnderstood > 0) return "not-understood";
  if (destinations.length === 0) return dropped === 0 ? "refused" : refused === 0 ? "dropped" : "varies";
  if (refused + dropped > 0) return "varies";
  const translated = destinations.filter((one) => one.translated).length;
  return translated === destinations.length ? "served" : translated === 0 ? "not-handled" : "varies";
}

function returningShare(tables: PreparedTables, host: Host, packet: Packet, outcomes: readonly Outcome[]): number {
  const family = familyOfPacket(packet);
  const followed = outcomes.slice(0, MOST_RETURNS);
  let share = 0;
  for (const first of followed) {
    if (first.kind !== "delivered") continue;
    const entries = first.updates.map(
      ({ table, map, key, value }): DynamicEntry => ({ family, table: table.name, map, key, value }),
    );
    for (const second of evaluatePrepared(tables, host, packet, entries)) {
      if (second.kind !== "delivered") continue;
      if (second.to.address === first.to.address && second.to.port === first.to.port) share += second.probability;
    }
  }
  return share / followed.length;
}

/** Sums of fractions are rarely round. */
function rounded(share: number): number {
  return Math.round(share * 1e6) / 1e6;
}
