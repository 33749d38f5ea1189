import { AppError } from "../../base/errors.ts";
import { FAMILIES, type Family } from "../../base/family.ts";
import { ACTIVE_SET } from "../../kernel/trace-tables.ts";
import type { Protocol } from "../../model/ids.ts";
import { familyOf } from "../../model/ip.ts";
import { assign, matches, meta, payload } from "../../nft/ast/expression.ts";
import type { Command, Expression, LimitStatement, Statement, Transaction } from "../../nft/ast/json.ts";
import { declaringExpression } from "../../nft/data-types.ts";
import { removalTransaction } from "../../nft/transaction.ts";
import { parseFrontendKey } from "../../ruleset/keys.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import { isNamed, type ServiceArgument } from "../explain/query.ts";

/** Packets to trace: those that have all that is given here. */
export interface PacketSelection {
  readonly family: Family;
  readonly source?: string;
  /** An address; `node` for any of this host's own. */
  readonly destination?: string | "node";
  readonly protocol?: Protocol;
  readonly destinationPort?: number;
  /** Of a range of ports, which `destinationPort` begins. */
  readonly lastPort?: number;
}

/** The chain of a trace's table that limits the rate and sets the trace. */
export const LIMITED_CHAIN = "limited";
const HOOKS = ["prerouting", "output"] as const;

/** After fragments are put together (-400), before everything else: raw (-300), connection tracking (-200). */
const PRIORITY = -350;

/** The hooks that a packet may pass, each with the chain of a trace's table that it comes to after all others there. */
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
      // Without rules: the kernel tells of a traced packet that it came there.
      ...Object.entries(HOOK_ENDS).map(([hook, name]) => base(name, hook, LAST_PRIORITY)),
    ];
  });
  return { nftables: commands };
}

function selectionRule(selection: PacketSelection): Statement[] {
  const { family, source, destination, protocol, destinationPort, lastPort } = selection;
  return [
    matches(meta("l4proto"), `@${ACTIVE_SET}`),
    ...(source === undefined ? [] : [matches(payload(family, "saddr"), source)]),
    ...(destination === undefined ? [] : [destinationMatch(family, destination)]),
    ...(protocol === undefined ? [] : [matches(meta("l4proto"), protocol)]),
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
 * Switches the tracing on for so many seconds. The kernel switches it off by itself, whatever happens to us.
 */
export function armTransaction(
  table: string,
  selections: readonly PacketSelection[],
  seconds: number,
): Transaction {
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

/** The packets that `trace` is asked for: all that is given must be true. */
export interface TraceQuery {
  readonly to?: string;
  readonly port?: number;
  readonly protocol?: Protocol;
  readonly service?: ServiceArgument;
  readonly fromAddress?: string;
  /** Packets from this address, and, unless a destination is given, those to it. */
  readonly client?: string;
}

/** The most selections that are traced: each is a rule that every packet of its family meets. */
const MOST_SELECTIONS = 100;

/** The packets to trace, and how many frontends were too many. */
export interface Selected {
  readonly selections: readonly PacketSelection[];
  readonly omitted: number;
}

/**
 * The selections of packets that a query comes to, as many as can be traced.
 * @throws AppError BAD_ARGUMENT as {@link selectionsOf}
 */
export function selectedPackets(query: TraceQuery, state: RulesetState): Selected {
  const all = selectionsOf(query, state);
  return { selections: all.slice(0, MOST_SELECTIONS), omitted: Math.max(all.length - MOST_SELECTIONS, 0) };
}

/**
 * The selections of packets that a query comes to.
 * @throws AppError BAD_ARGUMENT when it asks for nothing, for addresses of two families, or for a Service without rules
 */
function selectionsOf(query: TraceQuery, state: RulesetState): PacketSelection[] {
  const source = query.fromAddress ?? query.client;
  const destinations = destinationsOf(query, state);
  const selections = destinations
    .filter(({ family }) => source === undefined || familyOf(source) === family)
    .map((destination) => ({ ...destination, ...(source === undefined ? {} : { source }) }));
  if (selections.length === 0) throw new AppError("BAD_ARGUMENT", "the addresses are of different families");
  const isOpen = query.to === undefined && query.service === undefined;
  if (query.client === undefined || !isOpen || query.port !== undefined) return selections;
  return [...selections, { family: familyOf(query.client), destination: query.client }];
}

function destinationsOf(query: TraceQuery, state: RulesetState): PacketSelection[] {
  const { to, service, protocol, port, fromAddress, client } = query;
  if (service !== undefined) return frontends(service, state);
  const ports = {
    ...(protocol === undefined ? {} : { protocol }),
    ...(port === undefined ? {} : { destinationPort: port }),
  };
  if (to !== undefined) return [{ family: familyOf(to), destination: to, ...ports }];
  if (port === undefined && fromAddress === undefined && client === undefined) {
    throw new AppError(
      "BAD_ARGUMENT",
      "say which packets to trace: --to, --port, --service, --from-ip or --client",
    );
  }
  return FAMILIES.map((family) => ({ family, ...ports }));
}

function frontends(service: ServiceArgument, state: RulesetState): PacketSelection[] {
  const selections = FAMILIES.flatMap((family) => {
    const rules = [...(state.families[family]?.allServicePortRules() ?? [])];
    return rules
      .filter(({ port }) => isNamed(port, service))
      .flatMap(({ port, frontends: own, ranges }) => [
        ...own,
        ...ranges.flatMap((range) => state.families[family]?.piecesOf(port.key, range) ?? []),
      ])
      .map(({ key }) => selectionOf(family, key));
  });
  if (selections.length > 0) return selections;
  throw new AppError("BAD_ARGUMENT", `no rules are made for ${service.service}`, {
    hint: "a Service needs a cluster IP and must not be left to another proxy; look at its name, namespace and ports",
  });
}

function selectionOf(family: Family, key: string): PacketSelection {
  const { address = "node", protocol, port, lastPort } = parseFrontendKey(key);
  const selection = { family, destination: address, protocol: protocol as Protocol, destinationPort: port };
  return lastPort === undefined ? selection : { ...selection, lastPort };
}
