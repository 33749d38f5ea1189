import fc from "fast-check";
import type { Family } from "../../src/base/family.ts";
import type { Command, Expression, Rule, Statement, Transaction } from "../../src/nft/ast/json.ts";
import type { Probe } from "./lab/outcome.ts";
import {
  CHAIN_KINDS,
  type ChainKind,
  dnatTargets,
  RANDOM_PORTS,
  randomAction,
  randomAssignment,
  randomComparison,
  randomTranslation,
  randomVerdict,
  virtualAddresses,
} from "./random-statements.ts";

const TABLE = "nft-proxy";
const INDEXES = [0, 1, 2];
/**
 * A chain only leads to deeper chains, and verdict maps only to the deepest chain, which uses no verdict
 * maps. So there are no loops.
 */
const DEPTHS = [0, 1, 2, 3];
const DEEPEST = 3;
const chainName = (kind: ChainKind, depth: number): string => `${kind}-${depth}`;

function rulesOf(family: Family, kind: ChainKind, depth: number): fc.Arbitrary<readonly Rule[]> {
  if (depth === DEEPEST) {
    return (kind === "nat" ? randomTranslation(family) : randomAssignment()).map((statements) => [
      statements,
    ]);
  }
  const below = DEPTHS.filter((other) => other > depth).map((other) => chainName(kind, other));
  const rule = fc
    .tuple(fc.array(randomComparison(family), { maxLength: 2 }), randomAction(family, kind, below))
    .map(([comparisons, last]): Rule => [...comparisons, ...last]);
  return fc.array(rule, { minLength: 1, maxLength: 4 });
}

/** The hooks of a kind of chain. Answers always pass, so a probe shows the outcome of its first packet. */
const HOOKS: Readonly<Record<ChainKind, readonly (readonly [hook: string, type: string, prio: number])[]>> = {
  early: [
    ["prerouting", "filter", -110],
    ["output", "filter", -110],
  ],
  filter: [
    ["input", "filter", 0],
    ["forward", "filter", 0],
    ["output", "filter", 0],
  ],
  nat: [
    ["prerouting", "nat", -100],
    ["output", "nat", -100],
  ],
  source: [["postrouting", "nat", 100]],
};

/**
 * The common part of all rulesets: base chains, which lead new connections to the random chains, and empty
 * maps.
 */
function frame(family: Family): Command[] {
  const table = { family, name: TABLE };
  const at = { family, table: TABLE };
  const type = family === "ip" ? "ipv4_addr" : "ipv6_addr";
  const key = [type, "inet_proto", "inet_service"];
  return [
    { add: { table } },
    { delete: { table } },
    { add: { table } },
    { add: { set: { ...at, name: "virtual", type } } },
    { add: { map: { ...at, name: "endpoints", type: [...key, "classid"], map: [type, "inet_service"] } } },
    ...CHAIN_KINDS.map(
      (kind): Command => ({ add: { map: { ...at, name: `verdicts-${kind}`, type: key, map: "verdict" } } }),
    ),
    ...CHAIN_KINDS.flatMap((kind) =>
      DEPTHS.map((depth): Command => ({ add: { chain: { ...at, name: chainName(kind, depth) } } })),
    ),
    ...CHAIN_KINDS.flatMap((kind) =>
      HOOKS[kind].flatMap(([hook, chainType, prio]): Command[] => {
        const chain = `${kind}-${hook}`;
        const expr: Rule = [
          { match: { op: "in", left: { ct: { key: "state" } }, right: "new" } },
          { jump: { target: chainName(kind, 0) } },
        ];
        return [
          { add: { chain: { ...at, name: chain, type: chainType, hook, prio, policy: "accept" } } },
          { add: { rule: { ...at, chain, expr } } },
        ];
      }),
    ),
  ];
}

function destinations(family: Family): readonly (readonly [string, string, number])[] {
  return virtualAddresses(family).flatMap((to) =>
    ["tcp", "udp"].flatMap((protocol) => RANDOM_PORTS.map((port) => [to, protocol, port] as const)),
  );
}

function elements(family: Family): fc.Arbitrary<Command[]> {
  const keys = destinations(family);
  const endpoint = fc
    .constantFrom(...dnatTargets(family))
    .chain((to) => fc.constantFrom(8080, 53).map((port) => [to, port]));
  const endpoints = fc
    .subarray(keys.flatMap((key) => INDEXES.map((index) => [...key, index] as const)))
    .chain((chosen) =>
      fc.tuple(
        ...chosen.map((key) =>
          endpoint.map((to): [Expression, Expression] => [{ concat: key }, { concat: to }]),
        ),
      ),
    );
  const verdicts = (kind: ChainKind) =>
    fc
      .subarray([...keys])
      .chain((chosen) =>
        fc.tuple(
          ...chosen.map((key) => verdictFor(kind).map((verdict) => [{ concat: key }, verdict] as const)),
        ),
      );
  const filled = (name: string, elem: readonly unknown[]): Command[] =>
    elem.length === 0 ? [] : [{ add: { element: { family, table: TABLE, name, elem } } } as Command];
  return fc
    .tuple(fc.subarray([...virtualAddresses(family)]), endpoints, ...CHAIN_KINDS.map(verdicts))
    .map(([virtual, chosen, ...maps]) => [
      ...filled("virtual", virtual),
      ...filled("endpoints", chosen),
      ...CHAIN_KINDS.flatMap((kind, i) => filled(`verdicts-${kind}`, maps[i] ?? [])),
    ]);
}

function verdictFor(kind: ChainKind): fc.Arbitrary<Statement> {
  const target = chainName(kind, DEEPEST);
  return randomVerdict(kind, [{ jump: { target } }, { goto: { target } }]);
}

function tableOf(family: Family): fc.Arbitrary<Command[]> {
  const chains = CHAIN_KINDS.flatMap((kind) =>
    DEPTHS.map((depth) => {
      const at = { family, table: TABLE, chain: chainName(kind, depth) };
      return rulesOf(family, kind, depth).map((rules) =>
        rules.map((expr): Command => ({ add: { rule: { ...at, expr } } })),
      );
    }),
  );
  return fc.tuple(elements(family), ...chains).map((parts) => [...frame(family), ...parts.flat()]);
}

/**
 * Random rules of every kind that the evaluator knows, in both families: chains that jump, go to and return,
 * comparisons, verdict maps, marks, random translations, masquerading.
 */
export const randomRules: fc.Arbitrary<Transaction> = fc
  .tuple(tableOf("ip"), tableOf("ip6"))
  .map(([ip, ip6]) => ({ nftables: [...ip, ...ip6] }));

/** Packets that these rules may treat differently. */
export const randomRulesProbes: readonly Probe[] = (["ip", "ip6"] as const).flatMap((name) =>
  (["pod1", "ext", "node2", "node"] as const).flatMap((from) =>
    [...virtualAddresses(name).slice(0, 2), ...dnatTargets(name).slice(2)].flatMap((to) =>
      (
        [
          ["tcp", 80],
          ["udp", 53],
        ] as const
      ).map(([proto, port]) => ({
        id: `${from} to ${to} ${proto} ${port}`,
        from,
        to,
        port,
        proto,
        n: 40,
        // A reject that arrives while connect(2) holds the socket only takes effect at the second SYN, a
        // second later. That SYN no longer passes nat chains. A seed whose rules distinguish the two would
        // show a case that the evaluator does not cover.
        wait: 1.3,
      })),
    ),
  ),
);
