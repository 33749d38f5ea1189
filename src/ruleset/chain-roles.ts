import type { Family } from "../base/family.ts";
import { SCHEDULERS } from "../model/scheduler.ts";
import type { Chain } from "../nft/ast/ruleset.ts";
import { balancerChain, chooserChain, rememberChain } from "./balancers.ts";
import {
  type Balancer,
  balancerName,
  chooserName,
  type Draw,
  rememberName,
  STATIC_CHAINS,
  type StaticChainName,
} from "./chain-names.ts";
import type { DeltaTracker } from "./delta-tracker.ts";
import { type FrontendKind, PORTS } from "./frontend-kinds.ts";
import { AFFINITY_SECONDS, DRAW_COUNTS } from "./setting-grids.ts";
import { SLOT_TABLE_SIZES } from "./slot-table.ts";

/** The purpose of one of our chains. */
export type ChainRole = { readonly kind: "static"; readonly name: StaticChainName } | KeptRole;

/** The purpose of a chain that a table keeps once it has it. */
type KeptRole =
  | { readonly kind: "draw"; readonly draw: Draw }
  | { readonly kind: "affinity" }
  | { readonly kind: "choose"; readonly draw: Draw }
  | { readonly kind: "remember"; readonly seconds: number };

interface KeptChain {
  readonly role: KeptRole;
  readonly chain: (family: Family) => Chain;
}

/** All such chains, some 1,300 by name, and those of balancers for other kinds. Made on demand. */
const kept = new Map<FrontendKind, ReadonlyMap<string, KeptChain>>();

/**
 * Adds a chain that a table keeps once it has it, with the one that it leads to: the kernel walks the maps
 * that a new chain looks into (nf_tables_bind_set), so such chains do not come and go with Services.
 * @param tracker the writer of the table
 * @param name other names have no effect
 * @param kind of the frontends of a balancer
 */
export function keepChain(tracker: DeltaTracker, name: string, kind = PORTS): void {
  if (tracker.table.chains.has(name)) return;
  const chain = keptChains(kind).get(name)?.chain(tracker.table.family);
  if (chain === undefined) return;
  for (const rule of chain.rules)
    for (const statement of rule) if ("goto" in statement) keepChain(tracker, statement.goto.target, kind);
  tracker.putChain(chain);
}

/**
 * The purpose of a chain by its name; undefined for a name that is not ours. For a chain of intervals, ask
 * with the name of its equivalent for ports.
 */
export function chainRole(name: string): ChainRole | undefined {
  if (STATIC.has(name)) return { kind: "static", name: name as StaticChainName };
  return keptChains(PORTS).get(name)?.role;
}

function keptChains(kind: FrontendKind): ReadonlyMap<string, KeptChain> {
  const known = kept.get(kind);
  if (known !== undefined) return known;
  const chains = new Map<string, KeptChain>();
  const add = (name: string, role: KeptRole, chain: KeptChain["chain"]) => chains.set(name, { role, chain });
  for (const draw of draws()) {
    const balancer = withoutAffinity(draw);
    const chain = (family: Family) => balancerChain(family, balancer, kind);
    add(balancerName(balancer, kind), { kind: "draw", draw }, chain);
    if (kind === PORTS)
      add(chooserName(draw), { kind: "choose", draw }, (family) => chooserChain(family, draw));
  }
  for (const balancer of affinityBalancers())
    add(balancerName(balancer, kind), { kind: "affinity" }, (family) =>
      balancerChain(family, balancer, kind),
    );
  kept.set(kind, chains);
  if (kind !== PORTS) return chains;
  for (const seconds of AFFINITY_SECONDS) {
    for (const isLocal of [false, true]) {
      const chain = (family: Family) => rememberChain(family, seconds, isLocal);
      add(rememberName(seconds, isLocal), { kind: "remember", seconds }, chain);
    }
  }
  return chains;
}

function draws(): readonly Draw[] {
  return [
    ...(["random", "round-robin"] as const).flatMap((scheduler) =>
      DRAW_COUNTS.map((count) => ({ scheduler, slots: false, count })),
    ),
    ...SCHEDULERS.flatMap((scheduler) =>
      SLOT_TABLE_SIZES.map((count) => ({ scheduler, slots: true, count })),
    ),
  ];
}

function withoutAffinity<D extends Draw>(draw: D): D & Pick<Balancer, "affinitySeconds" | "local"> {
  return { ...draw, affinitySeconds: 0, local: false };
}

function affinityBalancers(): readonly Balancer[] {
  const any: Balancer = { scheduler: "random", slots: false, count: 1, affinitySeconds: 1, local: false };
  const both: readonly Balancer[] = [any, { ...any, both: true }];
  return both.flatMap((balancer) => [balancer, { ...balancer, local: true }]);
}

const STATIC: ReadonlySet<string> = new Set(STATIC_CHAINS);
