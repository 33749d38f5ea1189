import type { ByFamily, Family } from "../base/family.ts";
import { firstSorted } from "../base/first-sorted.ts";
import { assign, dnatToAddress, masked, matches, meta, payload, verdictMap } from "../nft/ast/expression.ts";
import type { Rule, Statement } from "../nft/ast/json.ts";
import type { Ruleset } from "../nft/ast/ruleset.ts";
import { verdictTarget } from "../nft/elements.ts";
import { type PingName, pingName, type StaticChain, type StaticChainName } from "./chain-names.ts";
import type { DeltaTracker } from "./delta-tracker.ts";
import { byPodOrigin, destinationAddress, FROM_NODE, parseFrontendKey, sourceAddress } from "./keys.ts";
import type { FamilyContext, NodeContext } from "./node-context.ts";
import type { FrontendRules } from "./service-port-rules.ts";
import { PING_IPS } from "./sets.ts";
import type { SharedObjects } from "./shared-objects.ts";

/** The chain that answers echo requests. */
export const ANSWER_PING = "answer-ping" satisfies StaticChainName;

/** The chain that answers echo requests of pods and of the node itself. */
export const ANSWER_INSIDE = "answer-ping-inside" satisfies StaticChainName;

/** The protocols of echo requests, by nft's names. */
export const ECHO_PROTOCOLS = { ip: "icmp", ip6: "icmpv6" } as const satisfies ByFamily<string>;

/**
 * Looks up the destination of an echo request; no rules unless enabled. A packet without an answer continues:
 * the option only adds answers, and refuses nothing.
 */
export function pingRules({ family, answerPing }: Pick<FamilyContext, "family" | "answerPing">): Rule[] {
  if (!answerPing) return [];
  return [[echoRequest(family), verdictMap(destinationAddress(family), PING_IPS)]];
}

/** Matches echo requests of a family, but not ICMP errors or neighbour discovery. */
export function echoRequest(family: Family): Statement {
  return matches(payload(ECHO_PROTOCOLS[family], "type"), "echo-request");
}

/**
 * The chains that answer echo requests. The node answers in place of the Service, by its own address, and
 * connection tracking translates the answer back. `redirect` would drop requests from interfaces without an
 * address, such as Calico's. Without an address of the family, nothing is answered.
 */
export function pingChains(context: FamilyContext): readonly StaticChain[] {
  const { answerPing, nodeAddress, masqueradeMark } = context;
  if (!answerPing) return [];
  const fromPods = byPodOrigin(context, matches);
  const answer = { goto: { target: ANSWER_PING } };
  return [
    {
      name: ANSWER_PING,
      // Requests to cluster IPs may have the mark, but are not masqueraded: the answer comes from this node.
      rules: nodeAddress === "" ? [] : [[unmark(masqueradeMark), dnatToAddress(nodeAddress)]],
    },
    {
      name: ANSWER_INSIDE,
      rules: [...(fromPods === undefined ? [] : [[fromPods, answer]]), [FROM_NODE, answer]],
    },
  ];
}

/**
 * The families in which addresses of Services would answer, but the node has no address to answer with.
 * @param ruleset the desired tables
 */
export function silentFamilies(nodeContext: NodeContext, ruleset: Ruleset): readonly Family[] {
  return nodeContext.flatMap(({ family, nodeAddress }) => {
    const count = ruleset[family]?.sets.get(PING_IPS)?.elements.size ?? 0;
    return nodeAddress === "" && count > 0 ? [family] : [];
  });
}

function unmark(bit: number): Statement {
  const mark = meta("mark");
  return assign(mark, masked(mark, 0xffff_ffff - bit));
}

/**
 * Tells which clients get an answer at the address of a frontend: those whose connections it serves.
 * @returns the name of the chain that answers, followed by the set of allowed source ranges if there is one;
 * undefined if no client gets an answer
 */
function conditionOf({ way, refusal, guard }: FrontendRules): string | undefined {
  // Without a local endpoint, the policy "Local" serves only pods and the node itself.
  const isInside = way === "external-local" && refusal === "dropped";
  if (way === undefined || (refusal !== undefined && !isInside)) return undefined;
  const chain = isInside ? ANSWER_INSIDE : ANSWER_PING;
  return guard === undefined ? chain : `${chain} ${guard.set.name}`;
}

/**
 * Maximum number of distinct conditions of one address. Services that share an address may each have source
 * ranges of their own. Beyond this number, the conditions of the last sets by name are ignored.
 */
const MOST_CONDITIONS = 8;

/** The addresses that answer echo requests: one element for each, however many frontends it has. */
export class PingAnswers {
  readonly #tracker: DeltaTracker;
  readonly #shared: SharedObjects;
  /** By address: how many of its frontends have each condition. */
  readonly #conditions = new Map<string, Map<string, number>>();

  /** @param tracker the writer of the table */
  constructor(tracker: DeltaTracker, shared: SharedObjects) {
    this.#tracker = tracker;
    this.#shared = shared;
  }

  /** Replaces the rules of a frontend; undefined for none. NodePorts have no address of their own. */
  replace(before: FrontendRules | undefined, after: FrontendRules | undefined): void {
    const { address } = parseFrontendKey((after ?? before)?.key ?? "");
    const [from, to] = [before && conditionOf(before), after && conditionOf(after)];
    if (address === undefined || from === to) return;
    const counts = this.#conditions.get(address) ?? new Map<string, number>();
    const isChanged = [to !== undefined && add(counts, to, 1), from !== undefined && add(counts, from, -1)];
    if (!isChanged.includes(true)) return;
    if (counts.size > 0) this.#conditions.set(address, counts);
    else this.#conditions.delete(address);
    this.#write(
      address,
      firstSorted(counts.keys(), MOST_CONDITIONS, (condition) => condition),
    );
  }

  #write(address: string, conditions: readonly string[]): void {
    const { family, sets } = this.#tracker.table;
    const from = targetOf(sets.get(PING_IPS)?.elements.get(address));
    const to = chainFor(conditions);
    if (from === to) return;
    if (isShared(to))
      this.#shared.addChain(to, () => ({ name: to, rules: conditionRules(family, conditions) }));
    this.#tracker.setElement(PING_IPS, address, to && `goto ${to}`);
    if (isShared(from)) this.#shared.dropChain(from);
  }
}

/** Changes a count. @returns whether it was 0 before, or is 0 now and deleted */
function add(counts: Map<string, number>, key: string, change: 1 | -1): boolean {
  const before = counts.get(key) ?? 0;
  if (before + change === 0) counts.delete(key);
  else counts.set(key, before + change);
  return before === 0 || before + change === 0;
}

type AnswerChain = typeof ANSWER_PING | typeof ANSWER_INSIDE | PingName;

/**
 * The chain for sorted conditions; the condition for all clients sorts first. Undefined without conditions.
 */
function chainFor(conditions: readonly string[]): AnswerChain | undefined {
  const [first, second] = conditions;
  if (first === undefined || first === ANSWER_PING) return first;
  if (first === ANSWER_INSIDE && second === undefined) return first;
  return pingName(conditions.join());
}

function targetOf(verdict: string | undefined): AnswerChain | undefined {
  return verdictTarget(verdict ?? "") as AnswerChain | undefined;
}

/** Whether a chain exists only while addresses lead to it. */
function isShared(chain: AnswerChain | undefined): chain is PingName {
  return chain !== undefined && chain !== ANSWER_PING && chain !== ANSWER_INSIDE;
}

function conditionRules(family: Family, conditions: readonly string[]): readonly Rule[] {
  return conditions.map((condition) => {
    const [target = "", set] = condition.split(" ");
    const isAllowed = set === undefined ? [] : [matches(sourceAddress(family), `@${set}`)];
    return [...isAllowed, { jump: { target } }];
  });
}
