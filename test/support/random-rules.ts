import fc from "fast-check";
import type { Command, Expression, NftFamily, Rule, Statement, Transaction } from "../../src/nft/json.ts";
import type { Probe } from "./lab/outcome.ts";
import { type AddressPair, addressesOf } from "./lab/topology.ts";

const TABLE = "nft-proxy";
const PORTS = [80, 53];
const INDEXES = [0, 1, 2];

const pick = (family: NftFamily, { v4, v6 }: AddressPair): string => (family === "ip" ? v4 : v6);
const virtualAddresses = (family: NftFamily): readonly string[] =>
  [1, 2, 3].map((n) => (family === "ip" ? `10.96.0.${n}` : `fd00:10:96::${n}`));
/** Only where answers find back by themselves: no pod that is also a client, none behind the other node. */
const targets = (family: NftFamily): readonly string[] =>
  (["pod2", "pod3", "node"] as const).map((machine) => pick(family, addressesOf(machine)));

const meta = (key: string): Expression => ({ meta: { key } });
const ct = (key: string): Expression => ({ ct: { key } });
const address = (family: NftFamily, field: "saddr" | "daddr"): Expression => ({ payload: { protocol: family, field } });
const dport: Expression = { payload: { protocol: "th", field: "dport" } };
const destinationKey = (family: NftFamily): readonly Expression[] => [address(family, "daddr"), meta("l4proto"), dport];

const is = (left: Expression, right: Expression, op: "==" | "!=" | "in" = "=="): Statement => ({
  match: { op, left, right },
});

function comparison(family: NftFamily): fc.Arbitrary<Statement> {
  const op = fc.constantFrom("==" as const, "!=" as const);
  const clients = [...(["pod1", "node", "ext", "ext2", "node2"] as const)].map((from) =>
    pick(family, addressesOf(from)),
  );
  const someOf = (items: readonly Expression[]): fc.Arbitrary<Expression> =>
    fc.subarray([...items], { minLength: 1 }).map((set) => ({ set }));
  const near: Expression =
    family === "ip" ? { prefix: { addr: "10.244.0.0", len: 16 } } : { prefix: { addr: "fd00:244::", len: 32 } };
  return fc.oneof(
    fc.tuple(someOf([...clients, near]), op).map(([set, o]) => is(address(family, "saddr"), set, o)),
    fc.tuple(someOf(virtualAddresses(family)), op).map(([set, o]) => is(address(family, "daddr"), set, o)),
    op.map((o) => is(address(family, "daddr"), "@virtual", o)),
    fc.tuple(fc.constantFrom(...PORTS), op).map(([port, o]) => is(dport, port, o)),
    fc.constantFrom("tcp", "udp").map((name) => is(meta("l4proto"), name)),
    fc.constantFrom("pod*", "pod1", "eth0", "lo", "eth*").chain((name) => op.map((o) => is(meta("iifname"), name, o))),
    fc
      .constantFrom("saddr", "daddr")
      .chain((flag) => op.map((o) => is({ fib: { flags: [flag], result: "type" } }, "local", o))),
    fc.constant(is(ct("status"), "dnat", "in")),
    fc.tuple(fc.constantFrom(1, 4), op).map(([bit, o]) => is({ "&": [meta("mark"), bit] }, 0, o)),
    fc.tuple(fc.constantFrom(0, 7), op).map(([classid, o]) => is(meta("priority"), classid, o)),
  );
}

function assignment(): fc.Arbitrary<readonly Statement[]> {
  const mark = meta("mark");
  const set = (key: Expression, value: Expression): readonly Statement[] => [{ mangle: { key, value } }];
  return fc.oneof(
    fc.constantFrom(1, 4).map((bit) => set(mark, { "|": [mark, bit] })),
    fc.constantFrom(1, 4).map((bit) => set(mark, { "^": [mark, bit] })),
    fc.constantFrom(0, 7).map((classid) => set(meta("priority"), classid)),
  );
}

function translation(family: NftFamily): fc.Arbitrary<readonly Statement[]> {
  const chosen: Expression = {
    map: { key: { concat: [...destinationKey(family), meta("priority")] }, data: "@endpoints" },
  };
  return fc.oneof(
    fc
      .integer({ min: 1, max: 3 })
      .map((mod): readonly Statement[] => [
        { mangle: { key: meta("priority"), value: { numgen: { mode: "random", mod, offset: 0 } } } },
        { dnat: { family, addr: chosen } },
      ]),
    fc.constantFrom(...targets(family)).map((addr): readonly Statement[] => [{ dnat: { family, addr } }]),
  );
}

type Kind = "early" | "filter" | "nat" | "source";

/** What may stand at the end of a rule; the kernel allows each kind of chain other statements. */
function action(family: NftFamily, kind: Kind, below: readonly string[]): fc.Arbitrary<readonly Statement[]> {
  const verdicts: Statement[] = [{ accept: null }, { return: null }];
  if (kind === "early" || kind === "filter") verdicts.push({ drop: null });
  if (kind === "filter") verdicts.push({ reject: null });
  const onward = below.flatMap((target): Statement[] => [{ jump: { target } }, { goto: { target } }]);
  const key: Expression = { concat: destinationKey(family) };
  const choices: fc.Arbitrary<readonly Statement[]>[] = [
    fc.constantFrom(...verdicts).map((verdict) => [verdict]),
    assignment(),
    fc.constant([{ vmap: { key, data: `@verdicts-${kind}` } }]),
  ];
  if (onward.length > 0) choices.push(fc.constantFrom(...onward).map((verdict) => [verdict]));
  if (kind === "nat") choices.push(translation(family), translation(family));
  if (kind === "source") choices.push(fc.constant([{ masquerade: { flags: "fully-random" } }]));
  return fc.oneof(...choices);
}

const KINDS: readonly Kind[] = ["early", "filter", "nat", "source"];
const DEPTH = [0, 1, 2];
const chainName = (kind: Kind, depth: number): string => `${kind}-${depth}`;

function rulesOf(family: NftFamily, kind: Kind, depth: number): fc.Arbitrary<readonly Rule[]> {
  const below = DEPTH.filter((other) => other > depth).map((other) => chainName(kind, other));
  const rule = fc
    .tuple(fc.array(comparison(family), { maxLength: 2 }), action(family, kind, below))
    .map(([comparisons, last]): Rule => [...comparisons, ...last]);
  return fc.array(rule, { minLength: 1, maxLength: 4 });
}

/** The hooks of a kind of chain. Answers pass, so that a probe tells what became of its first packet. */
const HOOKS: Readonly<Record<Kind, readonly (readonly [hook: string, type: string, prio: number])[]>> = {
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

/** Frames of all rulesets: the base chains, which lead new connections into the random ones, and empty maps. */
function frame(family: NftFamily): Command[] {
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
    ...KINDS.map((kind): Command => ({ add: { map: { ...at, name: `verdicts-${kind}`, type: key, map: "verdict" } } })),
    ...KINDS.flatMap((kind) =>
      DEPTH.map((depth): Command => ({ add: { chain: { ...at, name: chainName(kind, depth) } } })),
    ),
    ...KINDS.flatMap((kind) =>
      HOOKS[kind].flatMap(([hook, chainType, prio]): Command[] => {
        const chain = `${kind}-${hook}`;
        const expr: Rule = [is(ct("state"), "new", "in"), { jump: { target: chainName(kind, 0) } }];
        return [
          { add: { chain: { ...at, name: chain, type: chainType, hook, prio, policy: "accept" } } },
          { add: { rule: { ...at, chain, expr } } },
        ];
      }),
    ),
  ];
}

function destinations(family: NftFamily): readonly (readonly [string, string, number])[] {
  return virtualAddresses(family).flatMap((to) =>
    ["tcp", "udp"].flatMap((protocol) => PORTS.map((port) => [to, protocol, port] as const)),
  );
}

function elements(family: NftFamily): fc.Arbitrary<Command[]> {
  const keys = destinations(family);
  const endpoint = fc
    .constantFrom(...targets(family))
    .chain((to) => fc.constantFrom(8080, 53).map((port) => [to, port]));
  const endpoints = fc
    .subarray(keys.flatMap((key) => INDEXES.map((index) => [...key, index] as const)))
    .chain((chosen) =>
      fc.tuple(
        ...chosen.map((key) => endpoint.map((to): [Expression, Expression] => [{ concat: key }, { concat: to }])),
      ),
    );
  const verdicts = (kind: Kind) =>
    fc
      .subarray([...keys])
      .chain((chosen) =>
        fc.tuple(...chosen.map((key) => verdictFor(kind).map((verdict) => [{ concat: key }, verdict] as const))),
      );
  const filled = (name: string, elem: readonly unknown[]): Command[] =>
    elem.length === 0 ? [] : [{ add: { element: { family, table: TABLE, name, elem } } } as Command];
  return fc
    .tuple(fc.subarray([...virtualAddresses(family)]), endpoints, ...KINDS.map(verdicts))
    .map(([virtual, chosen, ...maps]) => [
      ...filled("virtual", virtual),
      ...filled("endpoints", chosen),
      ...KINDS.flatMap((kind, i) => filled(`verdicts-${kind}`, maps[i] ?? [])),
    ]);
}

/** Verdict maps lead to the last chain only, which looks into none: so there are no loops. */
function verdictFor(kind: Kind): fc.Arbitrary<Statement> {
  const target = chainName(kind, DEPTH.length);
  const drops: Statement[] = kind === "early" || kind === "filter" ? [{ drop: null }] : [];
  return fc.constantFrom<Statement>(
    { accept: null },
    { return: null },
    { jump: { target } },
    { goto: { target } },
    ...drops,
  );
}

function family(name: NftFamily): fc.Arbitrary<Command[]> {
  const at = { family: name, table: TABLE };
  const last = KINDS.map((kind) => {
    const chain = chainName(kind, DEPTH.length);
    const statements: fc.Arbitrary<readonly Statement[]> = kind === "nat" ? translation(name) : assignment();
    return statements.map((expr): Command[] => [
      { add: { chain: { ...at, name: chain } } },
      { add: { rule: { ...at, chain, expr } } },
    ]);
  });
  const random = KINDS.flatMap((kind) =>
    DEPTH.map((depth) =>
      rulesOf(name, kind, depth).map((rules) =>
        rules.map((expr): Command => ({ add: { rule: { ...at, chain: chainName(kind, depth), expr } } })),
      ),
    ),
  );
  return fc.tuple(elements(name), ...last, ...random).map(([filled, ...rest]) => {
    const commands = rest.flat();
    const chains = commands.filter((command) => "add" in command && "chain" in command.add);
    const rules = commands.filter((command) => !chains.includes(command));
    return [...frame(name), ...chains, ...filled, ...rules];
  });
}

/**
 * Rules of every kind that the evaluator knows, in both families, with no sense but the kernel's: chains that jump,
 * go to and return, comparisons, verdict maps, marks, random translations, masquerading.
 */
export const randomRules: fc.Arbitrary<Transaction> = fc
  .tuple(family("ip"), family("ip6"))
  .map(([ip, ip6]) => ({ nftables: [...ip, ...ip6] }));

/** Packets that such rules may treat differently. */
export const randomRulesProbes: readonly Probe[] = (["ip", "ip6"] as const).flatMap((name) =>
  (["pod1", "ext", "node2", "node"] as const).flatMap((from) =>
    [...virtualAddresses(name).slice(0, 2), ...targets(name).slice(2)].flatMap((to) =>
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
        // A reject that arrives while connect(2) holds the socket counts only with the second SYN, a second later.
        wait: 1.3,
      })),
    ),
  ),
);
