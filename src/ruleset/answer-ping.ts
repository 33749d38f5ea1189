import type { ByFamily, Family } from "../base/family.ts";
import { firstSorted } from "../base/first-sorted.ts";
import {
  assign,
  concat,
  dnatToAddress,
  lookup,
  masked,
  matches,
  meta,
  payload,
  randomNumber,
  verdictMap,
} from "../nft/ast/expression.ts";
import type { Rule, Statement } from "../nft/ast/json.ts";
import type { Ruleset } from "../nft/ast/ruleset.ts";
import { joinParts } from "../nft/elements.ts";
import { REGISTER } from "./balancers.ts";
import type { StaticChain, StaticChainName } from "./chain-names.ts";
import type { DeltaTracker } from "./delta-tracker.ts";
import { byPodOrigin, destinationAddress, FROM_NODE, parseFrontendKey } from "./keys.ts";
import type { FamilyContext, NodeContext } from "./node-context.ts";
import type { FrontendRules } from "./service-port-rules.ts";
import { PING_IPS, PING_SOURCE_RANGE_LISTS } from "./sets.ts";
import type { SourceRangeLists } from "./source-range-lists.ts";
import { ALLOWS_ALL, allowedChain } from "./source-ranges.ts";

/** The chain that answers echo requests. */
export const ANSWER_PING = "answer-ping" satisfies StaticChainName;

/** The chain that answers echo requests of pods and of the node itself. */
export const ANSWER_INSIDE = "answer-ping-inside" satisfies StaticChainName;

/** The chain that answers only the sources that source ranges allow. */
const ANSWER_ALLOWED = "answer-ping-allowed" satisfies StaticChainName;
const CHECK = "answer-ping-check" satisfies StaticChainName;
const CHECK_INSIDE = "answer-ping-inside-check" satisfies StaticChainName;

/** The chains of {@link pingChecks}. */
export const PING_CHECKS = [ANSWER_ALLOWED, CHECK, CHECK_INSIDE] as const;

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
 * The chains that answer echo requests to addresses with source ranges. An address has lists for the clients
 * that get an answer, and others for those that get one only inside the cluster. A list that allows everybody
 * is {@link ALLOWS_ALL}.
 */
export function pingChecks({ family, answerPing }: FamilyContext): readonly StaticChain[] {
  if (!answerPing) return [];
  const list = (index: number) =>
    lookup(concat(destinationAddress(family), randomNumber(1, index)), PING_SOURCE_RANGE_LISTS);
  return [
    {
      name: ANSWER_ALLOWED,
      rules: [CHECK, CHECK_INSIDE].flatMap((target, part) =>
        Array.from({ length: MOST_CONDITIONS }, (_, index): Rule => {
          return [assign(REGISTER, list(part * MOST_CONDITIONS + index)), { jump: { target } }];
        }),
      ),
    },
    allowedChain(family, CHECK, ANSWER_PING),
    allowedChain(family, CHECK_INSIDE, ANSWER_INSIDE),
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

/** Clients that get an answer at an address. */
interface Condition {
  /** Whether only pods and the node itself get one. */
  readonly isInside: boolean;
  /** The id of the list of source ranges that they must be in; undefined for none. */
  readonly ranges: string | undefined;
}

/**
 * Tells which clients get an answer at the address of a frontend: those whose connections it serves.
 * Undefined if no client gets one.
 */
function conditionOf({ way, refusal, guard }: FrontendRules): Condition | undefined {
  // Without a local endpoint, the policy "Local" serves only pods and the node itself.
  const isInside = way === "external-local" && refusal === "dropped";
  if (way === undefined || (refusal !== undefined && !isInside)) return undefined;
  return { isInside, ranges: guard?.id };
}

/**
 * Maximum number of conditions of one address, for all clients and for those inside. Services that share an
 * address may each have source ranges of their own. Beyond this number, the conditions of the last lists by
 * id are ignored.
 */
const MOST_CONDITIONS = 8;

/** How many frontends of an address have each condition, by its text. */
type Counts = Map<string, { readonly condition: Condition; count: number }>;

/** The addresses that answer echo requests, however many frontends they have. */
export class PingAnswers {
  readonly #tracker: DeltaTracker;
  readonly #lists: SourceRangeLists;
  readonly #conditions = new Map<string, Counts>();

  /**
   * @param tracker the writer of the table
   * @param lists the lists of source ranges of the same table; those of an address are in use
   */
  constructor(tracker: DeltaTracker, lists: SourceRangeLists) {
    this.#tracker = tracker;
    this.#lists = lists;
  }

  /** Replaces the rules of a frontend; undefined for none. NodePorts have no address of their own. */
  replace(before: FrontendRules | undefined, after: FrontendRules | undefined): void {
    const { address } = parseFrontendKey((after ?? before)?.key ?? "");
    const [from, to] = [before && conditionOf(before), after && conditionOf(after)];
    if (address === undefined || (from?.isInside === to?.isInside && from?.ranges === to?.ranges)) return;
    const counts: Counts = this.#conditions.get(address) ?? new Map();
    const isChanged = [to !== undefined && add(counts, to, 1), from !== undefined && add(counts, from, -1)];
    if (!isChanged.includes(true)) return;
    if (counts.size > 0) this.#conditions.set(address, counts);
    else this.#conditions.delete(address);
    this.#write(address, counts);
  }

  /** Writes all addresses with source ranges again: their lists have other numbers. */
  rewrite(): void {
    for (const [address, counts] of this.#conditions) this.#write(address, counts);
  }

  #write(address: string, counts: Counts): void {
    const conditions = [...counts.values()].map(({ condition }) => condition);
    const target = targetOf(conditions);
    this.#tracker.setElement(PING_IPS, address, target && `goto ${target}`);
    if (!this.#tracker.table.sets.has(PING_SOURCE_RANGE_LISTS)) return;
    for (const isInside of [false, true]) {
      const ofPart = conditions.filter((one) => target === ANSWER_ALLOWED && one.isInside === isInside);
      const sorted = firstSorted(ofPart, MOST_CONDITIONS, ({ ranges = "" }) => ranges);
      for (let index = 0; index < MOST_CONDITIONS; index++) {
        const key = joinParts(address, (isInside ? MOST_CONDITIONS : 0) + index);
        const one = sorted[index];
        const value =
          one && (one.ranges === undefined ? String(ALLOWS_ALL) : this.#lists.numberOf(one.ranges));
        this.#tracker.setElement(PING_SOURCE_RANGE_LISTS, key, value);
      }
    }
  }
}

/** Changes a count. @returns whether it was 0 before, or is 0 now and deleted */
function add(counts: Counts, condition: Condition, change: 1 | -1): boolean {
  const key = `${condition.isInside} ${condition.ranges}`;
  const before = counts.get(key)?.count ?? 0;
  if (before + change === 0) counts.delete(key);
  else counts.set(key, { condition, count: before + change });
  return before === 0 || before + change === 0;
}

/** The chain that answers under some conditions; undefined without any. */
function targetOf(conditions: readonly Condition[]): StaticChainName | undefined {
  if (conditions.length === 0) return undefined;
  if (conditions.some(({ isInside, ranges }) => !isInside && ranges === undefined)) return ANSWER_PING;
  const areInside = conditions.every(({ isInside, ranges }) => isInside && ranges === undefined);
  return areInside ? ANSWER_INSIDE : ANSWER_ALLOWED;
}
