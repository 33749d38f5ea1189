import { durationText } from "../../base/duration.ts";
import { socketText } from "../../base/text.ts";
import { chainRole, portEquivalent } from "../../features/frontends.ts";
import type { FeatureWords } from "../../features/seam/feature.ts";
import type { Rule } from "../../nft/ast/json.ts";
import type { Table } from "../../nft/ast/ruleset.ts";
import { verdictTarget } from "../../nft/elements.ts";
import { ruleText } from "../../nft/text/rule-text.ts";
import { elementText } from "../../nft/text/table-text.ts";
import { EXTERNAL, EXTERNAL_LOCAL, refusalOf } from "../../ruleset/chain-names.ts";
import { parseId } from "../../ruleset/list-ids.ts";
import { REFUSAL_CAUSES } from "../../ruleset/refusal-causes.ts";
import {
  AFFINITY,
  BALANCERS,
  CLUSTER_IPS,
  HAIRPIN_CONNECTIONS,
  NO_ENDPOINTS,
  PORT_PROTOCOLS,
  SOURCE_RANGE_LISTS,
} from "../../ruleset/sets.ts";
import type { Effect, Outcome, RulePlace, Step } from "../../trace/outcome.ts";
import { roundedSum } from "../connection-result.ts";
import type { ExplainedStep } from "./explanation.ts";
import { decisionText, isOtherTable } from "./other-tables.ts";
import { drawnText, refusalWords, wordsOf } from "./words.ts";

interface OpenStep extends Omit<ExplainedStep, "elements"> {
  readonly elements: Set<string>;
  probability: number;
}

/**
 * Lists the rules that had an effect in any outcome of the connection. A rule that several outcomes share
 * appears once, with the elements that it found in all of them.
 * @param table nft-proxy's table; undefined when the kernel has none
 * @param listName names the lists of this table
 */
export function explainSteps(
  outcomes: readonly Outcome[],
  table: Table | undefined,
  listName: ListNames,
): ExplainedStep[] {
  const order: OpenStep[] = [];
  const merged = new Map<string, OpenStep>();
  // Outcomes of a random choice share step objects: each gets its words once, its probabilities add up.
  const seen = new Map<Step, OpenStep | undefined>();
  const mergedStep = (step: Step, at: number): OpenStep | undefined => {
    if (!("chain" in step)) return undefined;
    const isOwnRule = step.kind === "rule" && !isOtherTable(step.table);
    const message = isOwnRule ? stepWords(step, listName) : otherStepWords(step);
    if (message === undefined) return undefined;
    const index = step.kind === "policy" ? "policy" : step.index;
    const key = `${step.hook} ${step.table.family} ${step.table.name} ${step.chain} ${index} ${message}`;
    const entry = merged.get(key) ?? {
      hook: step.hook,
      ...(isOtherTable(step.table) ? { table: `${step.table.family} ${step.table.name}` } : {}),
      chain: step.chain,
      rule: isOwnRule ? stepRuleText(step) : decisionText(step),
      elements: new Set<string>(),
      message,
      probability: 0,
    };
    if (!merged.has(key)) order.splice(at, 0, entry);
    merged.set(key, entry);
    const effects = isOwnRule ? step.effects : [];
    for (const text of effects.flatMap((effect) => foundText(effect, table))) entry.elements.add(text);
    return entry;
  };
  for (const { steps, probability } of outcomes) {
    // The place after the previous step of this outcome.
    let at = 0;
    for (const step of steps) {
      const entry = seen.has(step) ? seen.get(step) : mergedStep(step, at);
      seen.set(step, entry);
      if (entry === undefined) continue;
      at = order.indexOf(entry) + 1;
      entry.probability += probability;
    }
  }
  return order.map((step) => ({
    ...step,
    elements: [...step.elements],
    probability: roundedSum(step.probability),
  }));
}

function foundText(effect: Effect, table: Table | undefined): string[] {
  // Every packet that gets there has a protocol with ports.
  if (effect.kind !== "found" || effect.set === PORT_PROTOCOLS) return [];
  const set = table?.sets.get(effect.set);
  return set === undefined ? [] : [`${effect.set} { ${elementText(set.spec, effect.key, effect.value)} }`];
}

/** A step that is a rule. */
export type RuleStep = Extract<Step, { readonly kind: "rule" }>;

/** A rule as `nft list` prints it. Only rules of nft-proxy's own tables have no text yet. */
export function stepRuleText({ text, rule }: Pick<RulePlace, "text" | "rule">): string {
  return text ?? ruleText(rule as Rule);
}

/** Formats the id of a list of endpoints: `list 17 of shop/cart port http (80/tcp)`. */
export type ListNames = (id: number) => string;

type EffectOf<Kind extends Effect["kind"]> = Extract<Effect, { readonly kind: Kind }>;

/**
 * What is known of an effect. The kernel's trace shows that a rule found, drew, assigned or translated, not
 * with which key, number or target.
 */
export type KnownEffect =
  | Exclude<Effect, { readonly kind: "found" | "dnat" | "random" | "assigned" }>
  | (Omit<EffectOf<"found">, "key"> & { readonly key?: string })
  | Omit<EffectOf<"random">, "value">
  | Omit<EffectOf<"assigned">, "value">
  | Pick<EffectOf<"dnat">, "kind">;

/** A rule of nft-proxy's own tables that had an effect. */
export interface RuleEffects {
  readonly chain: string;
  readonly effects: readonly KnownEffect[];
}

/**
 * Describes the effects of a rule, without a full stop; undefined for effects that explain nothing.
 * @param listName absent if the ids of lists are unknown
 */
export function stepWords(step: RuleEffects, listName?: ListNames): string | undefined {
  const words = new Set(step.effects.flatMap((effect) => effectWords(effect, step, listName) ?? []));
  return words.size === 0 ? undefined : [...words].join("; ");
}

/**
 * Describes a step in a table of other software; undefined for a step that neither ends nor changes a packet.
 */
function otherStepWords(step: Step): string | undefined {
  if (step.kind === "undecided") return "not understood, and treated as not matching";
  if (step.kind === "policy") return "dropped by the policy of the chain";
  if (step.kind !== "rule") return undefined;
  const words = step.effects.flatMap((effect) => otherEffectWords(effect) ?? []);
  return words.length === 0 ? undefined : words.join("; ");
}

function otherEffectWords(effect: Effect): string | undefined {
  switch (effect.kind) {
    case "verdict":
      return effect.verdict === "drop" ? "dropped" : undefined;
    case "found":
      return effect.value === "drop" ? "dropped" : undefined;
    case "reject":
      return "refused";
    case "dnat":
      return `the destination becomes ${socketText(effect.to.address, effect.to.port)}`;
    case "masquerade":
      return "the source is translated";
    default:
      return undefined;
  }
}

function effectWords(
  effect: KnownEffect,
  step: RuleEffects,
  listName: ListNames | undefined,
): string | undefined {
  switch (effect.kind) {
    case "found":
      return foundWords(effect, step, listName);
    case "verdict":
      if (portEquivalent(verdictTarget(effect.verdict) ?? "") === EXTERNAL_LOCAL)
        return "an external address by the policy Local";
      return effect.verdict === "drop" ? stopWords("dropped", step, true) : undefined;
    case "random":
      return choiceWords(effect.choices, step);
    case "hash":
      return `slot ${effect.value} of ${effect.choices}, by the hash of the client's address`;
    case "dnat":
      return TRANSLATIONS[step.chain] ?? "the destination becomes the endpoint";
    case "masquerade":
      return "the source becomes this node's address";
    case "timeouts":
      return "the connection gets the timeouts of its Service port";
    case "reject":
      return stopWords(effect.reset ? "reset" : "refused with an ICMP error", step, false);
    case "updated":
      return effect.map === AFFINITY
        ? `the client keeps this endpoint for ${durationText(effect.timeout)}`
        : undefined;
    case "missed":
    case "deleted":
      return undefined;
    case "beyond":
      return BEYOND[effect.set]?.(effect.most) ?? "the client is beyond a limit";
    case "full":
      if (effect.map === AFFINITY) return "the affinity map is full: the client gets no affinity entry";
      return effect.map in BEYOND ? "the set of clients is full: this one has no limit" : undefined;
    case "assigned":
      return portEquivalent(step.chain) === EXTERNAL && effect.register === "mark"
        ? "an external address by the policy Cluster: marked to be masqueraded"
        : undefined;
  }
}

const DRAWS = wordsOf("draws");
const FOUND: NonNullable<FeatureWords["found"]> = {
  ...wordsOf("found"),
  [NO_ENDPOINTS]: (value) => REFUSAL_CAUSES[refusalOf(value) ?? "no-endpoints"].message,
  [AFFINITY]: "the client already has an endpoint",
  [SOURCE_RANGE_LISTS]: "guarded by source ranges",
  [HAIRPIN_CONNECTIONS]: "the endpoint is the client itself",
};
/** By the names of sets of clients. */
const BEYOND = wordsOf("beyond");
const RESETS = wordsOf("resets");
const TRANSLATIONS = wordsOf("translations");

/** How and why a rule ends a connection. @param how `dropped` */
function stopWords(how: string, { chain }: RuleEffects, isDropped: boolean): string {
  const why = refusalWords(chain, isDropped) ?? RESETS[chain]?.("the connection's endpoint", undefined);
  return why === undefined ? how : `${how}: ${why}`;
}

function choiceWords(choices: number, { chain }: RuleEffects): string | undefined {
  const role = chainRole(chain);
  // Elsewhere, a draw of one is only a constant in a lookup key.
  if (role?.kind !== "draw" && role?.kind !== "choose")
    return choices === 1 ? undefined : `one of ${choices} at random`;
  if (choices === 1) return "the only endpoint";
  const endpoints = drawnText(choices);
  const words = DRAWS[role.draw.method.name];
  return words?.step({ count: choices, endpoints, own: undefined }) ?? `one of ${endpoints} at random`;
}

function foundWords(
  { set, key = "", value }: Extract<KnownEffect, { readonly kind: "found" }>,
  step: RuleEffects,
  listName: ListNames | undefined,
): string | undefined {
  const name = portEquivalent(set);
  switch (name) {
    case BALANCERS: {
      const list = listName === undefined ? "a Service with endpoints" : listName(Number(key));
      const isShortcut =
        portEquivalent(step.chain) === EXTERNAL_LOCAL && parseId(Number(key))?.way === "cluster";
      return isShortcut ? `pods and this node reach the endpoints of the whole cluster: ${list}` : list;
    }
    case CLUSTER_IPS:
      // A lookup that sets no mark changes nothing, so it gets no line.
      return step.effects.some(({ kind }) => kind === "assigned")
        ? "a cluster IP, and not from a pod: marked to be masqueraded"
        : undefined;
    default: {
      const words = FOUND[name];
      return typeof words === "function" ? words(value) : words;
    }
  }
}
