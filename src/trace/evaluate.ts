import type { Family } from "../base/family.ts";
import type { Chain, Ruleset, Table } from "../nft/ast/ruleset.ts";
import { type Evaluation, firstBranch } from "./branch.ts";
import { followBranch } from "./follow-branch.ts";
import type { Hook, Outcome } from "./outcome.ts";
import { familyOfPacket, type Host, type Packet } from "./packet.ts";

/** An element that a dynamic map holds before the packet arrives. */
export interface DynamicEntry {
  readonly family: Family;
  readonly map: string;
  readonly key: string;
  readonly value: string;
}

/**
 * Walks a packet through the hooks of a ruleset. Returns every possible outcome with its probability and steps.
 * Knows netfilter, and nothing about how the rules were rendered.
 * @param ruleset in canonical form
 * @param host names the node's own addresses
 * @param dynamic elements that earlier packets left in dynamic maps; none when absent
 * @throws AppError NFT_OUTPUT for a part of a rule that the evaluator does not know
 */
export function evaluate(
  ruleset: Ruleset,
  host: Host,
  packet: Packet,
  dynamic: Iterable<DynamicEntry> = [],
): readonly Outcome[] {
  const family = familyOfPacket(packet);
  const table = ruleset[family];
  const evaluation: Evaluation = {
    family,
    table,
    baseChains: baseChainsOf(table),
    packet,
    host,
    dynamic: contentsOf(family, dynamic),
    pending: [firstBranch(packet)],
    outcomes: [],
  };
  for (let branch = evaluation.pending.pop(); branch !== undefined; branch = evaluation.pending.pop())
    followBranch(evaluation, branch);
  return evaluation.outcomes;
}

/** The base chains of every hook by priority; chains of one priority in the order of their creation. */
function baseChainsOf(table: Table | undefined): Readonly<Record<Hook, readonly Chain[]>> {
  const all = [...(table?.chains.values() ?? [])];
  const at = (hook: Hook): readonly Chain[] =>
    all.filter((chain) => chain.base?.hook === hook).sort((a, b) => (a.base?.prio ?? 0) - (b.base?.prio ?? 0));
  return {
    prerouting: at("prerouting"),
    input: at("input"),
    forward: at("forward"),
    output: at("output"),
    postrouting: at("postrouting"),
  };
}

function contentsOf(family: Family, entries: Iterable<DynamicEntry>): ReadonlyMap<string, ReadonlyMap<string, string>> {
  const contents = new Map<string, Map<string, string>>();
  for (const entry of entries) {
    if (entry.family !== family) continue;
    const map = contents.get(entry.map) ?? new Map<string, string>();
    contents.set(entry.map, map.set(entry.key, entry.value));
  }
  return contents;
}
