import type { AnyTable } from "../nft/ast/any-table.ts";
import { type HookedChain, isSourceNat } from "./branch.ts";
import type { Hook } from "./outcome.ts";

/** A base chain, and how many base chains were made before it. */
interface MadeChain extends HookedChain {
  readonly made: number;
}

/**
 * The kernel's places of translation. nat chains run there, whatever their priorities, which order them among each
 * other. Source: nf_nat_ipv4_ops and nf_nat_register_fn in net/netfilter/nf_nat_proto.c and nf_nat_core.c, Linux 6.18.
 */
const DESTINATION_PLACE = -100;
const SOURCE_PLACE = 100;

/**
 * The base chains of every hook in the order in which packets pass them. Of two with one priority, the kernel runs the
 * later made first (measured with Linux 6.18, filter and nat chains); tables and chains are taken to be listed in the
 * order of their creation. The places of translation are as old as the first nat chain.
 */
export function baseChainsOf(tables: readonly AnyTable[]): Readonly<Record<Hook, readonly HookedChain[]>> {
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

/** Numbers by which the chains of a hook are sorted: the priority among all of them, the age, and both among nat chains. */
function orderOf(one: MadeChain, hook: Hook, firstNat: number): readonly number[] {
  const priority = one.chain.base?.prio ?? 0;
  if (!isNat(one)) return [priority, -one.made, 0, 0];
  return [isSourceNat(hook) ? SOURCE_PLACE : DESTINATION_PLACE, -firstNat, priority, -one.made];
}

function compareKeys(a: readonly number[], b: readonly number[]): number {
  const index = a.findIndex((number, i) => number !== b[i]);
  return index < 0 ? 0 : (a[index] ?? 0) - (b[index] ?? 0);
}
