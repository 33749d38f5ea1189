import type { Family } from "../base/family.ts";
import type { AnyTable } from "../nft/ast/any-table.ts";
import { type Ruleset, TABLE_NAME } from "../nft/ast/ruleset.ts";
import { baseChainsOf } from "./base-chain-order.ts";
import { type Evaluation, firstBranch, type HookedChain, setKey } from "./branch.ts";
import { followBranch } from "./follow-branch.ts";
import type { Hook, Outcome } from "./outcome.ts";
import { familyOfPacket, type Host, type Packet } from "./packet.ts";

/** An element that a dynamic map holds before the packet arrives. */
export interface DynamicEntry {
  readonly family: Family;
  /** The name of the table; our own when absent. */
  readonly table?: string;
  readonly map: string;
  readonly key: string;
  readonly value: string;
}

/**
 * Walks a packet through our tables. Returns every possible outcome with its probability and steps.
 * @param ruleset in canonical form
 * @param host names the node's own addresses
 * @param dynamic elements that earlier packets left in dynamic maps; none when absent
 */
export function evaluate(
  ruleset: Ruleset,
  host: Host,
  packet: Packet,
  dynamic: Iterable<DynamicEntry> = [],
): readonly Outcome[] {
  return evaluateTables(Object.values(ruleset), host, packet, dynamic);
}

/**
 * Walks a packet through the hooks of tables of any software. Returns every possible outcome with its probability and
 * steps. Rules that are not understood are never guessed: see `UndecidedEnding`.
 * @param tables of all families; those that do not see the packet are ignored
 * @param dynamic elements that earlier packets left in dynamic maps; a map with such elements has these alone
 */
export function evaluateTables(
  tables: readonly AnyTable[],
  host: Host,
  packet: Packet,
  dynamic: Iterable<DynamicEntry> = [],
): readonly Outcome[] {
  return evaluatePrepared(prepareTables(tables), host, packet, dynamic, true);
}

/** The base chains of tables in the order in which packets of a family pass them. Valid while the tables are. */
export type PreparedTables = Readonly<Record<Family, Readonly<Record<Hook, readonly HookedChain[]>>>>;

/** Sorts the base chains of tables once, for the evaluation of many packets. */
export function prepareTables(tables: readonly AnyTable[]): PreparedTables {
  const of = (family: Family) => tables.filter((table) => table.family === family || table.family === "inet");
  return { ip: baseChainsOf(of("ip")), ip6: baseChainsOf(of("ip6")) };
}

/** {@link evaluateTables} for tables that were prepared, and without the steps of outcomes unless asked for. */
export function evaluatePrepared(
  tables: PreparedTables,
  host: Host,
  packet: Packet,
  dynamic: Iterable<DynamicEntry> = [],
  withSteps = false,
): readonly Outcome[] {
  const family = familyOfPacket(packet);
  const evaluation: Evaluation = {
    family,
    baseChains: tables[family],
    packet,
    host,
    dynamic: contentsOf(dynamic),
    pending: [firstBranch(packet, withSteps)],
    outcomes: [],
  };
  const { pending } = evaluation;
  for (let branch = pending.pop(); branch !== undefined; branch = pending.pop()) followBranch(evaluation, branch);
  return evaluation.outcomes;
}

/**
 * Walks the answer to the first packet of a connection back through the hooks, from the endpoint to the client.
 * @param outcome of the first packet, which was delivered
 */
export function evaluateAnswer(
  tables: PreparedTables,
  host: Host,
  packet: Packet,
  outcome: Extract<Outcome, { readonly kind: "delivered" }>,
): readonly Outcome[] {
  const { to: endpoint, local, translated: isTranslated, source } = outcome;
  const iifname = local ? undefined : host.interfaceTo?.(endpoint.address);
  const answer: Packet = {
    from: { address: endpoint.address, at: local ? "node" : "outside", ...(iifname !== undefined && { iifname }) },
    to: packet.from.address,
    port: 0,
    protocol: packet.protocol,
    conntrack: "established",
    answers: { packet, endpoint, isTranslated, isMasqueraded: source === "masqueraded" },
  };
  return evaluatePrepared(tables, host, answer, [], true);
}

function contentsOf(entries: Iterable<DynamicEntry>): ReadonlyMap<string, ReadonlyMap<string, string>> {
  const contents = new Map<string, Map<string, string>>();
  for (const { family, table = TABLE_NAME, map, key, value } of entries) {
    const set = setKey(family, table, map);
    const elements = contents.get(set) ?? new Map<string, string>();
    contents.set(set, elements.set(key, value));
  }
  return contents;
}
