import { badArgument } from "../../base/errors.ts";
import { FAMILIES, type Family } from "../../base/family.ts";
import { ACTIVE_SET } from "../../kernel/trace-tables.ts";
import { PROTOCOLS, type Protocol } from "../../model/ids.ts";
import { familyOf } from "../../model/ip.ts";
import { assign, ECHO_PROTOCOLS, echoRequest, matches, meta, payload } from "../../nft/ast/expression.ts";
import type { Command, Expression, LimitStatement, Statement, Transaction } from "../../nft/ast/json.ts";
import { protocolNumber } from "../../nft/canonical/constant.ts";
import { declaringExpression } from "../../nft/data-types.ts";
import { removalTransaction } from "../../nft/transaction.ts";
import { parseFrontendKey } from "../../ruleset/keys.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import { isNamed, type ServiceArgument } from "../explain/query.ts";

/** A protocol of packets to trace. `icmp` stands for echo requests of either family. */
export type TracedProtocol = Protocol | "icmp";

/** Selects packets to trace. All given fields must match. */
export interface PacketSelection {
  readonly family: Family;
  readonly source?: string | undefined;
  /** An address; `node` for any of this host's own. */
  readonly destination?: string | undefined;
  readonly protocol?: TracedProtocol | undefined;
  readonly destinationPort?: number | undefined;
  /** The last port of an interval that starts at `destinationPort`. */
  readonly lastPort?: number | undefined;
}

/** The chain in a trace's table that limits the rate and enables the trace for a packet. */
export const LIMITED_CHAIN = "limited";
const HOOKS = ["prerouting", "output"] as const;

/** After defragmentation (-400), before everything else: raw (-300), connection tracking (-200). */
const PRIORITY = -350;

/** The chain in a trace's table that is last at each hook. */
export const HOOK_ENDS = {
  prerouting: "prerouting-end",
  input: "input-end",
  forward: "forward-end",
  output: "output-end",
  postrouting: "postrouting-end",
} as const;

/** After address translation (-100 and 100) and the helpers of connection tracking (300). */
const LAST_PRIORITY = 400;

/**
 * Marks a table as in use until its trace is enabled, for traces and daemons in other containers. No packet
 * has this protocol (reserved: IANA, "Assigned Internet Protocol Numbers"); the timeout is in seconds.
 */
const SETTING_UP = { elem: { val: 255, timeout: 120 } };

/**
 * Creates the tables that trace the selected packets once {@link armTransaction} enables them. Rules match
 * single values, not anonymous sets: a set without `typeof` makes older programs' listings crash (kubernetes
 * 136786).
 * @param rate traced packets a second, for each family
 */
export function traceTransaction(
  table: string,
  selections: readonly PacketSelection[],
  rate: number,
): Transaction {
  const commands = familiesOf(selections).flatMap((family): Command[] => {
    const base = (name: string, hook: string, prio: number): Command => ({
      add: { chain: { family, table, name, type: "filter", hook, prio, policy: "accept" } },
    });
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
        base(hook, hook, PRIORITY),
        ...own.map((selection) => rule(hook, selectionRule(selection))),
      ]),
      // Chains without rules: the kernel reports each traced packet that reaches them.
      ...Object.entries(HOOK_ENDS).map(([hook, name]) => base(name, hook, LAST_PRIORITY)),
    ];
  });
  return { nftables: commands };
}

function selectionRule(selection: PacketSelection): Statement[] {
  const { family, source, destination, protocol, destinationPort, lastPort } = selection;
  const isPing = protocol === "icmp";
  return [
    // This comes first: after a set of protocols, nft does not accept a field of one of their headers
    // (1.1.3).
    ...(isPing ? [echoRequest(family)] : []),
    matches(meta("l4proto"), `@${ACTIVE_SET}`),
    ...(source === undefined ? [] : [matches(payload(family, "saddr"), source)]),
    ...(destination === undefined ? [] : [destinationMatch(family, destination)]),
    ...(protocol === undefined || isPing ? [] : [matches(meta("l4proto"), protocol)]),
    ...(destinationPort === undefined
      ? []
      : [matches(payload("th", "dport"), portsJson(destinationPort, lastPort))]),
    { jump: { target: LIMITED_CHAIN } },
  ];
}

function portsJson(first: number, last = first): Expression {
  return first === last ? first : { range: [first, last] };
}

function destinationMatch(family: Family, destination: string): Statement {
  if (destination === "node") return matches({ fib: { flags: ["daddr"], result: "type" } }, "local");
  return matches(payload(family, "daddr"), destination);
}

/**
 * Enables the trace for a number of seconds. The kernel disables it afterwards, even if this process was
 * killed.
 */
export function armTransaction(
  table: string,
  selections: readonly PacketSelection[],
  seconds: number,
): Transaction {
  const arePings = selections.some(({ protocol }) => protocol === "icmp");
  // nft knows the names of ICMP and ICMPv6 only by the host's database.
  const elem = (family: Family) =>
    (arePings ? [protocolNumber(ECHO_PROTOCOLS[family])] : PROTOCOLS).map((val) => ({
      elem: { val, timeout: seconds },
    }));
  return {
    nftables: familiesOf(selections).map((family) => ({
      add: { element: { family, table, name: ACTIVE_SET, elem: elem(family) } },
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

/** The packets that the user of `trace` asks for. All given fields must match. */
export interface TraceQuery {
  readonly to?: string | undefined;
  readonly port?: number | undefined;
  readonly protocol?: TracedProtocol | undefined;
  readonly service?: ServiceArgument | undefined;
  readonly fromAddress?: string | undefined;
  /** Packets from this address and, without a destination, those to it. */
  readonly client?: string | undefined;
}

/** Maximum number of selections. Every packet of the family is compared with each of them. */
const MOST_SELECTIONS = 100;

/**
 * Returns the selections for a query, up to the maximum, and the number of the others.
 * @throws AppError BAD_ARGUMENT for an empty query, or addresses of two families
 */
export function selectedPackets(query: TraceQuery, state: RulesetState) {
  const { to, service, protocol, port, client, fromAddress } = query;
  if ([to, service, port, client, fromAddress].every((given) => given === undefined))
    throw badArgument("select the packets to trace: --to, --port, --service, --from-ip or --client");
  const source = fromAddress ?? client;
  const families = to === undefined ? FAMILIES : [familyOf(to)];
  const destinations: PacketSelection[] =
    service === undefined
      ? families.map((family) => ({ family, destination: to, protocol, destinationPort: port }))
      : frontendsOf(service, state);
  const selections = destinations
    .filter(({ family }) => source === undefined || familyOf(source) === family)
    .map((destination): PacketSelection => ({ ...destination, source }));
  if (selections.length === 0) throw badArgument("the addresses are of different families");
  if (client !== undefined && to === undefined && service === undefined && port === undefined)
    selections.push({ family: familyOf(client), destination: client });
  return {
    selections: selections.slice(0, MOST_SELECTIONS),
    omitted: Math.max(selections.length - MOST_SELECTIONS, 0),
  };
}

function frontendsOf(service: ServiceArgument, { families }: RulesetState): PacketSelection[] {
  return Object.values(families).flatMap((state) => {
    const { family } = state.table;
    return [...state.allServicePortRules()]
      .filter(({ port }) => isNamed(port, service))
      .flatMap(({ frontends, intervals }) => [
        ...frontends,
        ...intervals.flatMap((interval) => state.piecesOf(interval)),
      ])
      .map(({ key }) => {
        const { address = "node", port, lastPort, ...rest } = parseFrontendKey(key);
        const protocol = rest.protocol as Protocol;
        return { family, destination: address, protocol, destinationPort: port, lastPort };
      });
  });
}
