import { FAMILIES, type Family } from "../../base/family.ts";
import { ACTIVE_SET } from "../../kernel/trace-tables.ts";
import type { Protocol } from "../../model/ids.ts";
import { assign, matches, meta, payload } from "../../nft/ast/expression.ts";
import type { Command, LimitStatement, Statement, Transaction } from "../../nft/ast/json.ts";
import { declaringExpression } from "../../nft/data-types.ts";
import { removalTransaction } from "../../nft/transaction.ts";

/** Packets to trace: those that have all that is given here. */
export interface PacketSelection {
  readonly family: Family;
  readonly source?: string;
  /** An address; `node` for any of this host's own. */
  readonly destination?: string | "node";
  readonly protocol?: Protocol;
  readonly destinationPort?: number;
}

/** The chain of a trace's table that limits the rate and sets the trace. */
export const LIMITED_CHAIN = "limited";
const HOOKS = ["prerouting", "output"] as const;

/** After fragments are put together (-400), before everything else: raw (-300), connection tracking (-200). */
const PRIORITY = -350;

/**
 * A protocol that no packet has (reserved: IANA, "Assigned Internet Protocol Numbers"), and seconds: until a trace is
 * switched on, it tells other containers' traces and daemons that the table is in use.
 */
const SETTING_UP = { elem: { val: 255, timeout: 120 } };

const PROTOCOLS: readonly Protocol[] = ["tcp", "udp", "sctp"];

/**
 * The tables that trace the selected packets once {@link armTransaction} has switched them on. Rules match single
 * values, not anonymous sets: a set without `typeof` makes older programs' listings crash (kubernetes 136786).
 * @param rate traced packets a second, for each family
 */
export function traceTransaction(table: string, selections: readonly PacketSelection[], rate: number): Transaction {
  const commands = familiesOf(selections).flatMap((family): Command[] => {
    const rule = (chain: string, expr: readonly (Statement | LimitStatement)[]): Command => ({
      add: { rule: { family, table, chain, expr } },
    });
    const own = selections.filter((selection) => selection.family === family);
    return [
      { add: { table: { family, name: table } } },
      {
        add: {
          set: {
            family,
            table,
            name: ACTIVE_SET,
            type: { typeof: declaringExpression(["inet_proto"], "key") },
            flags: ["timeout"],
          },
        },
      },
      { add: { element: { family, table, name: ACTIVE_SET, elem: [SETTING_UP] } } },
      { add: { chain: { family, table, name: LIMITED_CHAIN } } },
      rule(LIMITED_CHAIN, [{ limit: { rate, per: "second", burst: rate } }, assign(meta("nftrace"), 1)]),
      ...HOOKS.flatMap((hook) => [
        { add: { chain: { family, table, name: hook, type: "filter", hook, prio: PRIORITY, policy: "accept" } } },
        ...own.map((selection) => rule(hook, selectionRule(selection))),
      ]),
    ];
  });
  return { nftables: commands };
}

function selectionRule({ family, source, destination, protocol, destinationPort }: PacketSelection): Statement[] {
  return [
    matches(meta("l4proto"), `@${ACTIVE_SET}`),
    ...(source === undefined ? [] : [matches(payload(family, "saddr"), source)]),
    ...(destination === undefined ? [] : [destinationMatch(family, destination)]),
    ...(protocol === undefined ? [] : [matches(meta("l4proto"), protocol)]),
    ...(destinationPort === undefined ? [] : [matches(payload("th", "dport"), destinationPort)]),
    { jump: { target: LIMITED_CHAIN } },
  ];
}

function destinationMatch(family: Family, destination: string): Statement {
  if (destination === "node") return matches({ fib: { flags: ["daddr"], result: "type" } }, "local");
  return matches(payload(family, "daddr"), destination);
}

/**
 * Switches the tracing on for so many seconds. The kernel switches it off by itself, whatever happens to us.
 */
export function armTransaction(table: string, selections: readonly PacketSelection[], seconds: number): Transaction {
  const elem = PROTOCOLS.map((val) => ({ elem: { val, timeout: seconds } }));
  return {
    nftables: familiesOf(selections).map((family) => ({
      add: { element: { family, table, name: ACTIVE_SET, elem } },
    })),
  };
}

/** Removes the tables. */
export function endTraceTransaction(table: string, selections: readonly PacketSelection[]): Transaction {
  return removalTransaction(familiesOf(selections).map((family) => ({ family, name: table })));
}

function familiesOf(selections: readonly PacketSelection[]): Family[] {
  return FAMILIES.filter((family) => selections.some((selection) => selection.family === family));
}
