import type { Chain } from "../nft/ast/ruleset.ts";
import { balancerChain, chooserChain, rememberChain } from "./balancers.ts";
import { type Balancer, balancerName, STATIC_CHAINS, type StaticChainName } from "./chain-names.ts";
import type { DeltaTracker } from "./delta-tracker.ts";
import { type Draw, type DrawMethod, FIRST_ENDPOINT_DRAW, parseDraw } from "./draws.ts";
import { type FrontendKind, PORTS } from "./frontend-kinds.ts";
import { AFFINITY_SECONDS } from "./setting-grids.ts";

/** The purpose of one of our chains. */
export type ChainRole = { readonly kind: "static"; readonly name: StaticChainName } | KeptRole;

/** The purpose of a chain that a table keeps once it has it. */
type KeptRole =
  | { readonly kind: "draw"; readonly draw: Draw }
  | { readonly kind: "affinity"; readonly balancer: Balancer }
  | { readonly kind: "choose"; readonly draw: Draw }
  | { readonly kind: "remember"; readonly seconds: number; readonly isLocal: boolean };

/**
 * Adds a chain that a table keeps once it has it, with the one that it leads to: the kernel walks the maps
 * that a new chain looks into (nf_tables_bind_set), so such chains do not come and go with Services. There
 * are some 1,300.
 * @param tracker the writer of the table
 * @param name other names have no effect
 * @param methods the ways to draw endpoints that the table may use
 * @param kind of the frontends of a balancer
 */
export function keepChain(
  tracker: DeltaTracker,
  name: string,
  methods: readonly DrawMethod[],
  kind = PORTS,
): void {
  if (tracker.table.chains.has(name)) return;
  const chain = keptChain(tracker, name, methods, kind);
  if (chain === undefined) return;
  for (const rule of chain.rules)
    for (const statement of rule)
      if ("goto" in statement) keepChain(tracker, statement.goto.target, methods, kind);
  tracker.putChain(chain);
}

function keptChain(
  { table: { family } }: DeltaTracker,
  name: string,
  methods: readonly DrawMethod[],
  kind: FrontendKind,
): Chain | undefined {
  const role = name.startsWith(kind.prefix) ? keptRole(name.slice(kind.prefix.length), methods) : undefined;
  switch (role?.kind) {
    case "draw":
      return balancerChain(family, { ...role.draw, affinitySeconds: 0, local: false }, kind);
    case "affinity":
      return balancerChain(family, role.balancer, kind);
    case "choose":
      return kind === PORTS ? chooserChain(family, role.draw) : undefined;
    case "remember":
      return kind === PORTS ? rememberChain(family, role.seconds, role.isLocal) : undefined;
    default:
      return undefined;
  }
}

/**
 * The purpose of a chain by its name; undefined for a name that is not ours. For a chain of intervals, ask
 * with the name of its equivalent for ports.
 * @param methods the ways to draw endpoints
 */
export function chainRole(name: string, methods: readonly DrawMethod[]): ChainRole | undefined {
  if (STATIC.has(name)) return { kind: "static", name: name as StaticChainName };
  return keptRole(name, methods);
}

const CHOOSE = "choose-";
const REMEMBER = /^remember-(local-)?(\d+)$/;

function keptRole(name: string, methods: readonly DrawMethod[]): KeptRole | undefined {
  const balancer = AFFINITY.get(name);
  if (balancer !== undefined) return { kind: "affinity", balancer };
  const [, local, text] = REMEMBER.exec(name) ?? [];
  const seconds = AFFINITY_SECONDS.find((one) => String(one) === text);
  if (seconds !== undefined) return { kind: "remember", seconds, isLocal: local !== undefined };
  const isChooser = name.startsWith(CHOOSE);
  const draw = parseDraw(isChooser ? name.slice(CHOOSE.length) : name, methods);
  return draw && { kind: isChooser ? "choose" : "draw", draw };
}

const AFFINITY: ReadonlyMap<string, Balancer> = new Map(
  [{}, { bothLists: true as const }].flatMap((bothLists) =>
    [false, true].map((local) => {
      const balancer = { ...FIRST_ENDPOINT_DRAW, affinitySeconds: 1, local, ...bothLists };
      return [balancerName(balancer, PORTS), balancer];
    }),
  ),
);

const STATIC: ReadonlySet<string> = new Set(STATIC_CHAINS);
