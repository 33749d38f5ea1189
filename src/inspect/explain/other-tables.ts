import { addToCount } from "../../base/group-by.ts";
import { counted, listText, percentText, socketText } from "../../base/text.ts";
import { familyOf } from "../../model/ip.ts";
import type { AnyTable, TableName } from "../../nft/ast/any-table.ts";
import { TABLE_NAME, type Table } from "../../nft/ast/ruleset.ts";
import { evaluateAnswer, evaluatePrepared, prepareTables } from "../../trace/evaluate.ts";
import type { Delivered, Ending, Outcome, Step, UndecidedRule } from "../../trace/outcome.ts";
import { isEcho, type Packet } from "../../trace/packet.ts";
import type { Result } from "../connection-result.ts";
import type { ExplainInput, LiveRules } from "./explain-input.ts";
import type { Connection, Verdict } from "./explanation.ts";
import { packetOf, SOMEWHERE } from "./packet.ts";

const ACTION = "change it in the software that owns the table: nft-proxy only changes its own tables";

/** Whether a table belongs to other software. */
export function isOtherTable({ name }: TableName): boolean {
  return name !== TABLE_NAME;
}

/** `table inet firewalld chain filter_FORWARD`. */
export function placeText({ table, chain }: { readonly table: TableName; readonly chain: string }): string {
  return `table ${table.family} ${table.name} chain ${chain}`;
}

/**
 * The verdict if tables of other software decide or may decide; undefined if nft-proxy's own table decides.
 */
export function otherTablesVerdict(
  connection: Connection,
  followed: FollowedConnection,
): Verdict | undefined {
  const { outcomes } = followed;
  const { shares, results, total } = stopsOf(outcomes);
  const isStopped = total >= 1 - 1e-9;
  const rules = undecidedRules(outcomes);
  if (rules.length > 0 && !isStopped) return notUnderstoodVerdict(connection, rules, outcomes);
  if (shares.size === 0) return answersVerdict(followed) ?? translatedElsewhere(outcomes);
  const [result, another] = results;
  if (isStopped && result !== undefined && another === undefined)
    return otherTable(result, listText([...shares.keys()]));
  const parts = Array.from(shares, ([text, share]) => `${Math.round(share * 100)} % ${text}`);
  return otherTable("varies", listText(parts));
}

function otherTable(result: Result, message: string, action = ACTION): Verdict {
  return { result, cause: "other-table", message, action };
}

/** Maximum number of possible replies to follow for one connection. */
const MOST_ANSWERS = 64;

/** The verdict for a served connection whose replies other software certainly stops. */
function answersVerdict({ tables, host, packet, outcomes }: FollowedConnection): Verdict | undefined {
  const served = outcomes.filter((one): one is Delivered => one.kind === "delivered" && one.translated);
  if (served.length < outcomes.length) return undefined;
  const followed = served.slice(0, MOST_ANSWERS);
  const answers = followed.flatMap((one) => evaluateAnswer(tables, host, packet, one));
  const { shares, total } = stopsOf(answers);
  const stopped = total / followed.length;
  if (stopped < 1e-9) return undefined;
  const share = stopped < 1 - 1e-9 ? `${percentText(stopped)} of ` : "";
  return otherTable(
    share === "" ? "dropped" : "varies",
    `${share}its answers are ${listText([...shares.keys()])}`,
    "let that software accept established connections (ct state established,related)",
  );
}

/**
 * The shares of the connection that each rule or policy of other software stops, by its text, with their sum
 * and the results.
 */
function stopsOf(outcomes: readonly Outcome[]) {
  const shares = new Map<string, number>();
  const results = new Set<"refused" | "dropped">();
  let total = 0;
  for (const { kind, steps, probability } of outcomes) {
    const last = steps.at(-1);
    if ((kind !== "refused" && kind !== "dropped") || last === undefined || !("table" in last)) continue;
    if (!isOtherTable(last.table)) continue;
    addToCount(shares, `${kind} by ${placeText(last)} (${decisionText(last)})`, probability);
    results.add(kind);
    total += probability;
  }
  return { shares, results, total };
}

/** The rule, or the policy, of a step, as text. */
export function decisionText(step: Extract<Step, { readonly table: TableName }>): string {
  return step.kind === "policy" ? "policy drop" : originalRuleText(step);
}

/** A rule of other software as `nft list` prints it, or as its JSON. */
export function originalRuleText({ text, rule }: Pick<UndecidedRule, "text" | "rule">): string {
  return text ?? JSON.stringify(rule);
}

/**
 * The rules of other tables that are not understood. In nft-proxy's table, a rule is only undecided for an
 * unknown interface, or if other software added it: the verdict by that table alone says so.
 */
function undecidedRules(outcomes: readonly Outcome[]): UndecidedRule[] {
  const rules = outcomes
    .flatMap((outcome) => (outcome.kind === "not-understood" ? outcome.rules : []))
    .filter(({ table }) => isOtherTable(table));
  return [...new Map(rules.map((rule) => [`${placeText(rule)} ${rule.index}`, rule])).values()];
}

function notUnderstoodVerdict(
  connection: Connection,
  rules: readonly UndecidedRule[],
  outcomes: readonly Outcome[],
): Verdict {
  const [first] = rules as [UndecidedRule];
  const more = rules.length === 1 ? "" : `, and ${counted(rules.length - 1, "more such rule")}`;
  const ends = new Set(
    outcomes.map((outcome) => endText(outcome.kind === "not-understood" ? outcome.otherwise : outcome)),
  );
  const otherwise = `if ${rules.length === 1 ? "it does" : "they do"} not match, the connection is ${listText([...ends])}`;
  return {
    result: "not-understood",
    cause: "not-understood",
    message: `a rule of ${placeText(first)} may decide: ${originalRuleText(first)}${more}; ${otherwise}`,
    action: "follow real packets to see the rule that decides",
    commands: [...listingCommands(first), traceCommand(connection)],
  };
}

/** The tables of iptables-nft. It can print all of its own rules in full. */
const IPTABLES_TABLE = /^(?:filter|nat|mangle|raw|security)$/;

/** The command that prints a rule of iptables-nft in full, where nft prints only the name of an extension. */
function listingCommands(rule: UndecidedRule): string[] {
  const { family, name } = rule.table;
  if (!IPTABLES_TABLE.test(name) || !originalRuleText(rule).includes("xt ")) return [];
  return [`${family === "ip6" ? "ip6tables" : "iptables"}-nft -t ${name} -S ${rule.chain}`];
}

function traceCommand({ to, port, protocol }: Connection): string {
  if (isEcho(protocol)) return `nft-proxy trace --to ${to} --proto icmp`;
  return `nft-proxy trace --to ${to} --port ${port}${protocol === "tcp" ? "" : ` --proto ${protocol}`}`;
}

function endText(ending: Ending): string {
  if (ending.kind !== "delivered") return ending.kind;
  return ending.translated ? "served" : "not handled";
}

/**
 * The verdict if another table's nat chain translates the connection first: nft-proxy's then has no effect.
 */
function translatedElsewhere(outcomes: readonly Outcome[]): Verdict | undefined {
  const targets = new Map<string, string>();
  const results = new Set<Result>();
  for (const { kind, steps } of outcomes) {
    const step = steps.find((one) => one.kind === "rule" && one.effects.some(({ kind }) => kind === "dnat"));
    if (kind === "not-understood" || step?.kind !== "rule" || !isOtherTable(step.table)) return undefined;
    results.add(kind === "delivered" ? "served" : kind);
    for (const effect of step.effects) {
      if (effect.kind === "dnat") targets.set(socketText(effect.to.address, effect.to.port), placeText(step));
    }
  }
  const [chain] = targets.values();
  const [result] = results;
  if (chain === undefined || result === undefined) return undefined;
  const message = `${chain} translates it to ${listText([...targets.keys()])} before nft-proxy's rules do`;
  return otherTable(results.size === 1 ? result : "varies", message);
}

/** A connection's outcomes by the tables of all software, and the input of the evaluation. */
type FollowedConnection = NonNullable<ReturnType<typeof followAllTables>>;

/**
 * Follows a connection through the kernel's tables of all software, in the order of their hooks and
 * priorities.
 * @param own nft-proxy's table
 * @returns undefined if only nft-proxy has tables, or if the desired state is followed
 */
export function followAllTables(connection: Connection, own: Table | undefined, input: ExplainInput) {
  const { live } = input;
  if (live?.otherTables === undefined || live.otherTables.tables.length === 0) return undefined;
  const { otherTables, affinityEntries } = live;
  const listed: AnyTable[] = [...otherTables.tables];
  if (own !== undefined) listed.splice(otherTables.older[own.family], 0, own);
  const tables = prepareTables(listed);
  const interfaceTo = routesBeside(connection, live);
  const host = { ...input.host, interfaceTo };
  const packet = arrivingPacket(connection, interfaceTo, input);
  return { tables, host, packet, outcomes: evaluatePrepared(tables, host, packet, affinityEntries, true) };
}

/**
 * The node's routes. An assumed pod without a route of its own has none: the default route is not its
 * interface.
 */
function routesBeside(
  { from: { address, at, known } }: Connection,
  { interfaceTo }: LiveRules,
): LiveRules["interfaceTo"] {
  const isDefault = interfaceTo(address) === interfaceTo(SOMEWHERE[familyOf(address)]);
  if (at !== "pod" || known === "given" || !isDefault) return interfaceTo;
  return (to) => (to === address ? undefined : interfaceTo(to));
}

/**
 * The packet with its incoming interface, if known: that to which the source is routed. An assumed client
 * outside may come from anywhere.
 */
function arrivingPacket(
  connection: Connection,
  interfaceTo: LiveRules["interfaceTo"],
  input: ExplainInput,
): Packet {
  const { from: source, ...packet } = packetOf(connection, input);
  const { iifname, ...from } = source;
  const { address, at, known } = connection.from;
  const isKnown = at === "pod" || (at === "outside" && known === "given");
  const arrival = (isKnown ? interfaceTo(address) : undefined) ?? (iifname || undefined);
  return { ...packet, from: arrival === undefined ? from : { ...from, iifname: arrival } };
}
