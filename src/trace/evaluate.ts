import type { ByFamily, Family } from "../base/family.ts";
import { compareKeys } from "../base/first-sorted.ts";
import type { AnyTable } from "../nft/ast/any-table.ts";
import { TABLE_NAME } from "../nft/ast/ruleset.ts";
import { Branch, type Evaluation, type HookedChain, isSourceNat, setKey } from "./branch.ts";
import { followBranch } from "./follow-branch.ts";
import type { Delivered, Hook, Outcome } from "./outcome.ts";
import { familyOfPacket, type Host, type Packet } from "./packet.ts";

/** An element of a dynamic map before the packet arrives. */
export interface DynamicEntry {
  readonly family: Family;
  /** The name of the table; ours if absent. */
  readonly table?: string;
  readonly map: string;
  readonly key: string;
  readonly value: string;
}

/**
 * Evaluates tables of any software for a packet. Returns every possible outcome with its probability and
 * steps. Rules that are not understood are never guessed: see `UndecidedEnding`.
 * @param tables of all families; those that do not see the packet are ignored
 * @param host knows the node's own addresses
 * @param dynamic elements that earlier packets added to dynamic maps, replacing the listed ones
 */
export function evaluate(
  tables: readonly AnyTable[],
  host: Host,
  packet: Packet,
  dynamic: Iterable<DynamicEntry> = [],
): readonly Outcome[] {
  return evaluatePrepared(prepareTables(tables), host, packet, dynamic, true);
}

/** The base chains of tables in the order that packets of a family pass them. Valid as long as the tables. */
export type PreparedTables = ByFamily<Readonly<Record<Hook, readonly HookedChain[]>>>;

/** Sorts the base chains of tables once, to evaluate many packets. */
export function prepareTables(tables: readonly AnyTable[]): PreparedTables {
  const of = (family: Family) => tables.filter((table) => table.family === family || table.family === "inet");
  return { ip: baseChainsOf(of("ip")), ip6: baseChainsOf(of("ip6")) };
}

/** Does {@link evaluate} with prepared tables, and without steps unless requested. */
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
    dynamicBefore: contentsOf(dynamic),
    pending: [],
    outcomes: [],
  };
  let branch: Branch | undefined = new Branch(evaluation, withSteps);
  for (; branch !== undefined; branch = evaluation.pending.pop()) followBranch(branch);
  return evaluation.outcomes;
}

/**
 * Evaluates the answer to the first packet of a connection, from the endpoint to the client.
 * @param outcome of the first packet, which was delivered
 */
export function evaluateAnswer(
  tables: PreparedTables,
  host: Host,
  packet: Packet,
  outcome: Delivered,
): readonly Outcome[] {
  const { to: endpoint, local, translated: isTranslated, source } = outcome;
  const iifname = local ? undefined : host.interfaceTo?.(endpoint.address);
  const answer: Packet = {
    from: {
      address: endpoint.address,
      at: local ? "node" : "outside",
      ...(iifname !== undefined && { iifname }),
    },
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

/** A base chain, and the number of base chains created before it. */
interface MadeChain extends HookedChain {
  readonly made: number;
}

/**
 * The kernel's priorities of translation. All nat chains run there; their own priorities only order them
 * among each other. Source: nf_nat_ipv4_ops and nf_nat_register_fn in net/netfilter/nf_nat_proto.c and
 * nf_nat_core.c, Linux 6.18.
 */
const DESTINATION_PLACE = -100;
const SOURCE_PLACE = 100;

/**
 * Sorts the base chains of every hook in the order that packets pass them. At equal priority, the kernel runs
 * the chain created last first (measured with Linux 6.18, filter and nat chains). Tables and chains are
 * assumed to be listed in order of creation. Translation is as old as the first nat chain.
 */
function baseChainsOf(tables: readonly AnyTable[]): Readonly<Record<Hook, readonly HookedChain[]>> {
  const all: MadeChain[] = [];
  for (const table of tables) {
    for (const chain of table.chains.values()) {
      if (chain.base !== undefined) all.push({ table, chain, made: all.length });
    }
  }
  const firstNat = all.find(isNat)?.made ?? 0;
  const at = (hook: Hook): readonly HookedChain[] =>
    all
      .filter(({ chain }) => chain.base?.hook === hook)
      .sort((a, b) => compareKeys(orderOf(a, hook, firstNat), orderOf(b, hook, firstNat)))
      .map(({ table, chain }) => ({ table, chain }));
  return {
    prerouting: at("prerouting"),
    input: at("input"),
    forward: at("forward"),
    output: at("output"),
    postrouting: at("postrouting"),
  };
}

function isNat({ chain }: HookedChain): boolean {
  return chain.base?.type === "nat";
}

/** The sort keys of a hook's chains: priority among all, age, and both among nat chains. */
function orderOf(one: MadeChain, hook: Hook, firstNat: number): readonly number[] {
  const priority = one.chain.base?.prio ?? 0;
  if (!isNat(one)) return [priority, -one.made, 0, 0];
  return [isSourceNat(hook) ? SOURCE_PLACE : DESTINATION_PLACE, -firstNat, priority, -one.made];
}
