import type { Family } from "../base/family.ts";
import type { Chain, Ruleset, Table } from "../nft/ast/ruleset.ts";
import type { Hook, Outcome } from "./outcome.ts";
import { familyOfPacket, type Host, type Packet } from "./packet.ts";
import { initialState, type Machine } from "./state.ts";
import { follow } from "./walk.ts";

/** An element that a dynamic map holds before the packet comes. */
export interface DynamicEntry {
  readonly family: Family;
  readonly map: string;
  readonly key: string;
  readonly value: string;
}

/**
 * Walks a packet through the hooks of a ruleset and gives every way in which it may end, with its
 * probability and the steps to it. Knows netfilter, and nothing of how the rules came to be.
 * @param ruleset in canonical form
 * @param host tells the node's own addresses
 * @param dynamic what packets before this one left in dynamic maps; nothing when absent
 * @throws AppError NFT_OUTPUT for an expression that it does not know
 */
export function evaluate(
  ruleset: Ruleset,
  host: Host,
  packet: Packet,
  dynamic: Iterable<DynamicEntry> = [],
): readonly Outcome[] {
  const family = familyOfPacket(packet);
  const table = ruleset[family];
  const machine: Machine = {
    family,
    table,
    baseChains: baseChainsOf(table),
    packet,
    host,
    dynamic: contentsOf(family, dynamic),
    pending: [initialState(packet)],
    outcomes: [],
  };
  for (let state = machine.pending.pop(); state !== undefined; state = machine.pending.pop()) follow(machine, state);
  return machine.outcomes;
}

/** The base chains of every hook by priority; those of one priority in the order of their making. */
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
