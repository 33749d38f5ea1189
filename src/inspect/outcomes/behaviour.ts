import { type DynamicEntry, evaluatePrepared, type PreparedTables } from "../../trace/evaluate.ts";
import { type Outcome, summarize } from "../../trace/outcome.ts";
import { familyOfPacket, type Host, type Packet } from "../../trace/packet.ts";
import { resultOf, roundedSum } from "../connection-result.ts";

/** The outcome of the connections of one client to one frontend; shares are from 0 to 1. */
export type Behaviour = Readonly<ReturnType<typeof behaviourOf>>;

/** Maximum number of possible endpoints for which a sticky client's second connection is evaluated. */
const MOST_RETURNS = 32;

/** Evaluates a client's first connection, and with session affinity its second one. */
export function behaviourOf(tables: PreparedTables, host: Host, packet: Packet) {
  const outcomes = evaluatePrepared(tables, host, packet);
  const summary = summarize(outcomes);
  const { destinations, refused, dropped, sticky } = summary;
  return {
    result: resultOf(summary),
    destinations: destinations.map((one) => ({ ...one, probability: roundedSum(one.probability) })),
    refused: roundedSum(refused),
    dropped: roundedSum(dropped),
    /**
     * Seconds for which the client keeps its endpoint, on average over the endpoints; 0 without session
     * affinity.
     */
    affinitySeconds: roundedSum(meanTimeout(outcomes)),
    /** The share of returning clients that reach the same endpoint, 0 to 1; 0 without session affinity. */
    returning: sticky ? roundedSum(returningShare(tables, host, packet, outcomes)) : 0,
  };
}

function meanTimeout(outcomes: readonly Outcome[]): number {
  const timeoutOf = ({ kind, updates }: Outcome) =>
    kind === "delivered" ? (updates.at(-1)?.timeout ?? 0) : 0;
  return outcomes.reduce((sum, outcome) => sum + outcome.probability * timeoutOf(outcome), 0);
}

function returningShare(
  tables: PreparedTables,
  host: Host,
  packet: Packet,
  outcomes: readonly Outcome[],
): number {
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
      if (second.to.address === first.to.address && second.to.port === first.to.port)
        share += second.probability;
    }
  }
  return share / followed.length;
}
