import fc from "fast-check";
import type { Family } from "../../src/base/family.ts";
import {
  assign,
  CONNECTION_HAS_DNAT,
  concat,
  differs,
  dnatTo,
  lookup,
  matches,
  meta,
  payload,
  randomNumber,
  verdictMap,
} from "../../src/nft/ast/expression.ts";
import type { Expression, Statement } from "../../src/nft/ast/json.ts";
import { type AddressPair, addressesOf } from "./lab/topology.ts";

/**
 * The kinds of chains by the statements that the kernel allows in them: before dnat, filtering, dnat,
 * masquerading.
 */
export const CHAIN_KINDS = ["early", "filter", "nat", "source"] as const;
/** One of those kinds. */
export type ChainKind = (typeof CHAIN_KINDS)[number];

/** The ports that random rules distinguish. */
export const RANDOM_PORTS = [80, 53];

/** Addresses that no machine has. */
export function virtualAddresses(family: Family): readonly string[] {
  return [1, 2, 3].map((n) => (family === "ip" ? `10.96.0.${n}` : `fd00:10:96::${n}`));
}

/**
 * The targets of dnat. Answers must find their way back by themselves, so no target is a pod that is also a
 * client.
 */
export function dnatTargets(family: Family): readonly string[] {
  return (["pod2", "pod3", "node"] as const).map((machine) => pick(family, addressesOf(machine)));
}

function pick(family: Family, { v4, v6 }: AddressPair): string {
  return family === "ip" ? v4 : v6;
}

const mark = meta("mark");
const priority = meta("priority");
const dport = payload("th", "dport");

function destination(family: Family): readonly Expression[] {
  return [payload(family, "daddr"), meta("l4proto"), dport];
}

/** A comparison that holds for some packets, on any field that the evaluator knows. */
export function randomComparison(family: Family): fc.Arbitrary<Statement> {
  const clients = (["pod1", "node", "ext", "node2"] as const).map((from) => pick(family, addressesOf(from)));
  const pods: Expression =
    family === "ip"
      ? { prefix: { addr: "10.244.0.0", len: 16 } }
      : { prefix: { addr: "fd00:244::", len: 32 } };
  const compared: readonly fc.Arbitrary<readonly [Expression, Expression]>[] = [
    someOf([...clients, pods]).map((set) => [payload(family, "saddr"), set]),
    someOf(virtualAddresses(family)).map((set) => [payload(family, "daddr"), set]),
    fc.constant([payload(family, "daddr"), "@virtual"]),
    fc.constantFrom(...RANDOM_PORTS).map((port) => [dport, port]),
    fc.constantFrom("tcp", "udp").map((protocol) => [meta("l4proto"), protocol]),
    fc.constantFrom("pod*", "pod1", "eth0", "lo", "eth*").map((name) => [meta("iifname"), name]),
    fc.constantFrom("saddr", "daddr").map((flag) => [{ fib: { flags: [flag], result: "type" } }, "local"]),
    fc.constantFrom(1, 4).map((bit) => [{ "&": [mark, bit] }, 0]),
    fc.constantFrom(0, 7).map((classid) => [priority, classid]),
  ];
  return fc.oneof(
    ...compared.map((sides) =>
      fc
        .tuple(sides, fc.constantFrom(matches, differs))
        .map(([[left, right], compare]) => compare(left, right)),
    ),
    fc.constant(CONNECTION_HAS_DNAT),
  );
}

function someOf(items: readonly Expression[]): fc.Arbitrary<Expression> {
  return fc.subarray([...items], { minLength: 1 }).map((set) => ({ set }));
}

/** Statements for the end of a rule. `below` are the chains to which it may lead. */
export function randomAction(
  family: Family,
  kind: ChainKind,
  below: readonly string[],
): fc.Arbitrary<readonly Statement[]> {
  const choices: fc.Arbitrary<readonly Statement[]>[] = [
    randomVerdict(kind, kind === "filter" ? [{ reject: null }] : []).map((verdict) => [verdict]),
    randomAssignment(),
    fc.constant([verdictMap(concat(...destination(family)), `verdicts-${kind}`)]),
  ];
  const onward = below.flatMap((target): Statement[] => [{ jump: { target } }, { goto: { target } }]);
  if (onward.length > 0) choices.push(fc.constantFrom(...onward).map((verdict) => [verdict]));
  if (kind === "nat") choices.push(randomTranslation(family), randomTranslation(family));
  if (kind === "source") choices.push(fc.constant([{ masquerade: { flags: "fully-random" } }]));
  return fc.oneof(...choices);
}

/** A verdict that a kind of chain may have, or one of `others`. */
export function randomVerdict(kind: ChainKind, others: readonly Statement[]): fc.Arbitrary<Statement> {
  const drops: Statement[] = kind === "early" || kind === "filter" ? [{ drop: null }] : [];
  return fc.constantFrom<Statement>({ accept: null }, { return: null }, ...drops, ...others);
}

/** An assignment to the mark or the priority. */
export function randomAssignment(): fc.Arbitrary<readonly Statement[]> {
  return fc.oneof(
    fc.constantFrom(1, 4).map((bit) => [assign(mark, { "|": [mark, bit] })]),
    fc.constantFrom(1, 4).map((bit) => [assign(mark, { "^": [mark, bit] })]),
    fc.constantFrom(0, 7).map((classid) => [assign(priority, classid)]),
  );
}

/** A dnat to one target, or to a random one of the map `endpoints`. */
export function randomTranslation(family: Family): fc.Arbitrary<readonly Statement[]> {
  const chosen = lookup(concat(...destination(family), priority), "endpoints");
  return fc.oneof(
    fc
      .integer({ min: 1, max: 3 })
      .map((mod) => [assign(priority, randomNumber(mod, 0)), dnatTo(family, chosen)]),
    fc.constantFrom(...dnatTargets(family)).map((addr) => [dnatTo(family, addr)]),
  );
}
