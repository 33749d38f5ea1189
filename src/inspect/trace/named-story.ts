import { AppError } from "../../base/errors.ts";
import { socketText } from "../../base/text.ts";
import { type FlowEnd, type FlowTable, placeOfFlows } from "../../kernel/conntrack.ts";
import { familyOf } from "../../model/ip.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import { podNames } from "../../model/pod-names.ts";
import type { ContentOf } from "../../nft/ast/any-table.ts";
import type { ElementStatement, Expression, Statement } from "../../nft/ast/json.ts";
import { type Chain, type Ruleset, TABLE_NAME } from "../../nft/ast/ruleset.ts";
import { ruleText } from "../../nft/text/rule-text.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import { type KnownEffect, stepWords } from "../explain/steps.ts";
import { portText, refusalWords, wordsOf } from "../explain/words.ts";
import type { PacketStory, StoppingHook, TracedRule, TraceEnd, TraceStage } from "./packet-story.ts";
import type { TracedPacket } from "./trace-line.ts";

/** One end of a packet. */
export interface NamedEnd {
  readonly address: string;
  /** 0 if the protocol has no ports. */
  readonly port: number;
  /** `Service shop/cart port http (80/tcp)`, a Pod's `namespace/name`, `this node`; "" for others. */
  readonly name: string;
}

/** A rule that a packet matched; with its meaning if it is a rule of nft-proxy. */
export interface NamedRule extends TracedRule {
  readonly means?: string;
}

/** The path of a packet through one base chain. */
export interface NamedStage extends Omit<TraceStage, "packet"> {
  readonly rules: readonly NamedRule[];
  /** The new destination, if an earlier chain changed it. */
  readonly destination?: NamedEnd;
}

/** A {@link PacketStory} with the names of Services and endpoints; a line of `trace --output json`. */
export interface NamedStory extends Pick<TracedPacket, "protocol" | "flags" | "input"> {
  /** RFC 3339. */
  readonly time: string;
  readonly source: NamedEnd;
  readonly destination: NamedEnd;
  readonly stages: readonly NamedStage[];
  readonly end: TraceEnd;
  /** The outcome in one sentence without a full stop. */
  readonly message: string;
}

/**
 * Returns a function that adds names and the outcome as text to a story. It takes the endpoint of a packet
 * that was reset and why the kernel stopped a packet outside nftables, if these are known.
 * @param ruleset nft-proxy's tables, for the meaning of rules
 */
export function storyNamer(
  { families }: RulesetState,
  cache: ObjectCache,
  nodeAddresses: ReadonlySet<string>,
  ruleset: Ruleset,
) {
  const pods = podNames(cache);
  const machine = (address: string) => (nodeAddresses.has(address) ? "this node" : (pods.get(address) ?? ""));
  const destinationOf = (packet: TracedPacket): NamedEnd => {
    const { destination: address, destinationPort: port, protocol } = packet;
    const state = address === "" ? undefined : families[familyOf(address)];
    const frontend = state?.frontendAt(address, protocol, port, nodeAddresses.has(address))?.port;
    const name = frontend === undefined ? machine(address) : `Service ${portText(frontend)}`;
    return { address, port, name };
  };
  return (story: PacketStory, endpoint?: FlowEnd, stopReason?: string): NamedStory => {
    const { packet, last = packet, startedAt, end } = story;
    return {
      time: new Date(startedAt).toISOString(),
      protocol: packet.protocol,
      flags: packet.flags,
      source: { address: packet.source, port: packet.sourcePort, name: machine(packet.source) },
      destination: destinationOf(packet),
      input: packet.input,
      stages: namedStages(story, ruleset, destinationOf),
      end,
      message:
        resetText(end, destinationOf(packet), endpoint) ??
        endText(end, sameDestination(packet, last) ? undefined : destinationOf(last), stopReason),
    };
  };
}

function namedStages(
  { packet, stages }: PacketStory,
  ruleset: Ruleset,
  name: (packet: TracedPacket) => NamedEnd,
): NamedStage[] {
  let last = packet;
  return stages.map(({ packet: now, ...stage }) => {
    const { family, table, rules } = stage;
    const isMoved = now !== undefined && !sameDestination(last, now);
    last = now ?? last;
    const own = table === TABLE_NAME && (family === "ip" || family === "ip6") ? ruleset[family] : undefined;
    const named = rules.map((rule) => namedRule(rule, own?.chains.get(rule.chain)));
    return { ...stage, rules: named, ...(isMoved ? { destination: name(last) } : {}) };
  });
}

function sameDestination(a: TracedPacket, b: TracedPacket): boolean {
  return a.destination === b.destination && a.destinationPort === b.destinationPort;
}

/**
 * Adds the meaning to a rule of nft-proxy.
 * @param chain the desired chain; undefined for one that nft-proxy does not make
 */
function namedRule(traced: TracedRule, chain: Chain | undefined): NamedRule {
  const text = traced.rule.replaceAll(COUNTS, "counter");
  const rule = chain?.rules.find((one) => ruleText(one) === text);
  if (rule === undefined) return traced;
  const effects = rule.flatMap((statement) => effectsOf(statement, traced.verdict));
  const means = stepWords({ chain: traced.chain, effects });
  return means === undefined ? traced : { ...traced, means };
}

/** The values of a counter, which only traces show. */
const COUNTS = /counter packets \d+ bytes \d+/g;

/** The effects of a statement in a rule that matched. Traces do not show keys, choices and targets. */
function effectsOf(statement: Statement, verdict: string): KnownEffect[] {
  const found = (data: Expression, value: string): KnownEffect[] =>
    typeof data === "string" && data.startsWith("@") ? [{ kind: "found", set: data.slice(1), value }] : [];
  if ("vmap" in statement) return found(statement.vmap.data, verdict);
  if ("match" in statement) return found(statement.match.right, "");
  if ("mangle" in statement) return mangleEffects(statement.mangle);
  if ("dnat" in statement) return [...drawn(statement.dnat.addr), { kind: "dnat" }];
  if ("masquerade" in statement) return [{ kind: "masquerade" }];
  if ("ct timeout" in statement) return [{ kind: "timeouts", object: statement["ct timeout"] }];
  if ("reject" in statement) return [{ kind: "reject", reset: statement.reject !== null }];
  if ("set" in statement)
    return (statement.set.stmt ?? []).flatMap((one) => limitEffects(statement.set.set, one));
  return "drop" in statement ? [{ kind: "verdict", verdict: "drop" }] : [];
}

/** A rule with a limit only matches beyond it. @param set its name with `@` */
function limitEffects(set: string, statement: ElementStatement): KnownEffect[] {
  const beyond = (most: number) => [{ kind: "beyond", set: set.slice(1), most } as const];
  if ("ct count" in statement) return beyond(statement["ct count"].val);
  return "limit" in statement ? beyond(statement.limit.burst) : [];
}

function mangleEffects({ key, value }: ContentOf<Statement, "mangle">): KnownEffect[] {
  const isMark = typeof key === "object" && "meta" in key && key.meta.key === "mark";
  return [...drawn(value), ...(isMark ? [{ kind: "assigned", register: "mark" } as const] : [])];
}

/** The random choice in an expression. */
function drawn(expression: Expression): KnownEffect[] {
  if (typeof expression !== "object") return [];
  if ("numgen" in expression) return [{ kind: "random", choices: expression.numgen.mod }];
  if ("map" in expression) return drawn(expression.map.key);
  if ("concat" in expression) return expression.concat.flatMap(drawn);
  return "|" in expression ? expression["|"].flatMap(drawn) : [];
}

/** `reset: the endpoint 10.244.1.5:8080 left Service shop/cart port http (80/tcp)` */
function resetText(end: TraceEnd, { name }: NamedEnd, endpoint: FlowEnd | undefined): string | undefined {
  const which =
    endpoint === undefined ? "its endpoint" : `the endpoint ${socketText(endpoint.address, endpoint.port)}`;
  const why = resetOf(end)?.(which, name === "" ? undefined : name);
  return why === undefined ? undefined : `reset: ${why}`;
}

/** @param destination the destination after translation; undefined if it was not translated */
function endText(end: TraceEnd, destination: NamedEnd | undefined, stopReason: string | undefined): string {
  const to = destination === undefined ? "" : `; it goes to ${endName(destination)}`;
  if (end.kind === "stopped") return `${stoppedText(end.after, stopReason)}${to}`;
  if (end.kind === "unknown") {
    return "outcome unknown: trace messages were lost, or a rule queued the packet to a program";
  }
  if (end.kind === "passed") return `passed every chain of nftables${to}`;
  const { kind, family, table, chain, rule } = end;
  const by = rule === "" ? `the policy of chain ${chain}` : `a rule of chain ${chain}`;
  const why = table === TABLE_NAME ? refusalWords(chain, kind === "dropped") : undefined;
  return `${kind} by ${by} in table ${family} ${table}, ${ownerText(table)}${why === undefined ? "" : `: ${why}`}`;
}

/** @param reason undefined if routing does not explain it */
function stoppedText(after: StoppingHook | undefined, reason: string | undefined): string {
  if (after === undefined)
    return "stopped in its first hook, outside nftables (by iptables-legacy, for example)";
  const why =
    reason ?? "for a reason other than routes and rp_filter, such as its TTL, size or an IPsec policy";
  return `stopped by the kernel after ${after}, outside nftables: ${why}`;
}

/** `10.0.0.1:80 (shop/cart-1)`. */
export function endName({ address, port, name }: NamedEnd): string {
  const socket = port === 0 ? address : socketText(address, port);
  return name === "" ? socket : `${socket} (${name})`;
}

/** Owners of tables by their names. iptables-nft uses the names of the legacy tables. */
const OWNERS: readonly (readonly [pattern: RegExp, owner: string])[] = [
  [/^nft-proxy$/, "which is nft-proxy's"],
  [/^kube-proxy$/, "which is kube-proxy's"],
  [/^(?:filter|nat|mangle|raw|security)$/, "which is iptables' or of the host's own rules"],
  [/^firewalld$/, "which is firewalld's"],
  [/^calico$/, "which is Calico's"],
  [/^cilium/, "which is Cilium's"],
  [/^docker/, "which is Docker's"],
  [/^libvirt/, "which is libvirt's"],
];

function ownerText(table: string): string {
  return OWNERS.find(([pattern]) => pattern.test(table))?.[1] ?? "which is not nft-proxy's";
}

const RESETS = wordsOf("resets");

/** The words for a packet that was reset because of the endpoint of its connection; undefined for others. */
function resetOf(end: TraceEnd): (typeof RESETS)[string] | undefined {
  return end.kind === "rejected" && end.table === TABLE_NAME ? RESETS[end.chain] : undefined;
}

/**
 * Finds the endpoint of the connection of a reset packet. The packet has the Service's address; only
 * connection tracking knows the endpoint.
 * @returns undefined for packets that were not reset, and if connection tracking does not know it
 */
export async function resetEndpoint(
  { packet, end }: PacketStory,
  table: Pick<FlowTable, "list">,
): Promise<FlowEnd | undefined> {
  if (resetOf(end) === undefined) return undefined;
  const { source, sourcePort, destination, destinationPort } = packet;
  try {
    for await (const one of table.list("tcp", [placeOfFlows(destination, destinationPort)])) {
      const isItsOwn =
        one.client.address === source &&
        one.client.port === sourcePort &&
        one.destination.address === destination &&
        one.destination.port === destinationPort;
      if (isItsOwn) return one.replySource;
    }
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
  }
  return undefined;
}
