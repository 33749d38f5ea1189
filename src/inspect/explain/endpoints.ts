import { listText } from "../../base/text.ts";
import { portEquivalent } from "../../features/frontends.ts";
import { ejectedText } from "../../model/ejected-endpoint.ts";
import type { ExclusionReason, Place } from "../../model/endpoint-choice.ts";
import { familyOf } from "../../model/ip.ts";
import { splitParts } from "../../nft/elements.ts";
import { type ListName, parseId } from "../../ruleset/list-ids.ts";
import { contextOf } from "../../ruleset/node-context.ts";
import { type EndpointView, EXCLUSION_NAMES } from "../../ruleset/service-view.ts";
import { AFFINITY, AFFINITY_IDS, BALANCERS } from "../../ruleset/sets.ts";
import type { Effect, Outcome, Summary } from "../../trace/outcome.ts";
import { roundedSum, sharesByEndpoint } from "../connection-result.ts";
import type { ExplainInput } from "./explain-input.ts";
import type { ExcludedEndpoint, ExplainedEndpoint } from "./explanation.ts";
import type { Match } from "./match.ts";
import type { Evidence } from "./verdict.ts";

/** Reasons for which a usable endpoint gets no connections. */
const UNCHOSEN = {
  "not-reached": "usable, but never reached",
  "not-understood": "usable, but a rule that is not understood may decide",
  "not-in-kernel": "usable, but the kernel does not have it",
  affinity: "usable, but affinity keeps this client elsewhere",
  hash: "usable, but the hash sends this client elsewhere",
} as const;

/**
 * Lists all endpoints of a Service port: those that get connections, and the others with the reason.
 * Endpoints that only the rules have come last.
 * @param summary of the outcomes, perhaps also by other software's tables
 */
export function explainEndpoints(
  { match, list, outcomes, input }: Pick<Evidence, "match" | "list" | "outcomes" | "input">,
  summary: Summary,
): ExplainedEndpoint[] {
  // This node itself answers an echo request, which has no port.
  const chances = sharesByEndpoint(
    summary.destinations.filter(({ translated, port }) => translated && port !== 0),
  );
  const views = match?.view.endpoints ?? [];
  const reason = summary.notUnderstood > 0 ? "not-understood" : unchosenReason(chances.size > 0, outcomes);
  const unchosen = { reason, message: UNCHOSEN[reason] };
  const known = views.map((view): ExplainedEndpoint => {
    const { address, port, target, source } = view.endpoint;
    const probability = roundedSum(chances.get(target) ?? 0);
    const endpoint = {
      address,
      port,
      node: source.nodeName,
      zone: source.zone,
      pod: source.pod,
      probability,
    };
    return probability > 0 ? endpoint : { ...endpoint, excluded: exclusionOf(view, list, input) ?? unchosen };
  });
  for (const { endpoint } of views) chances.delete(endpoint.target);
  const others = [...chances].map(([target, chance]): ExplainedEndpoint => {
    const [address = "", port] = splitParts(target);
    return { address, port: Number(port), node: "", zone: "", pod: "", probability: roundedSum(chance) };
  });
  return [...known, ...others];
}

/** The reason for a usable endpoint without connections. @param isServed whether another endpoint has some */
function unchosenReason(isServed: boolean, outcomes: readonly Outcome[]): keyof typeof UNCHOSEN {
  if (!isServed) return "not-reached";
  if (isKept(outcomes)) return "affinity";
  return hasEffect(outcomes, ({ kind }) => kind === "hash") ? "hash" : "not-in-kernel";
}

/** Why the objects exclude an endpoint; undefined for a usable one. */
function exclusionOf(
  view: EndpointView,
  list: ListName,
  { nodeContext, cache, daemon }: ExplainInput,
): ExcludedEndpoint | undefined {
  const reason = view[list] ?? "used";
  if (reason === "used") return undefined;
  const { target, address } = view.endpoint;
  const family = familyOf(address);
  const known = daemon?.ejected.find((one) => one.family === family && one.target === target);
  if (reason === "ejected" && daemon !== undefined && known !== undefined)
    return { reason, message: ejectedText(known, daemon.now) };
  const place = contextOf(nodeContext, family)?.place ?? cache.node;
  return { reason, message: exclusionWords(reason, view, place) };
}

/** Explains why an endpoint is excluded, with the facts of this endpoint and node. */
function exclusionWords(
  reason: ExclusionReason,
  { endpoint: { source } }: EndpointView,
  place: Place,
): string {
  const name = EXCLUSION_NAMES[reason];
  switch (reason) {
    case "not-ready":
    case "terminating":
    case "drained":
    case "ejected":
      return name;
    case "not-serving":
      return `${name}: ${source.terminating ? "terminating" : "not ready"}`;
    case "not-local":
      return `${name}: runs on ${source.nodeName || "an unknown node"}`;
    case "other-zone":
      return `${name}: ${listText(source.zoneHints)}; this node is in ${place.zone || "no zone"}`;
    case "other-node":
      return `${name}: ${listText(source.nodeHints)}; this node is ${place.name}`;
  }
}

type Found = Extract<Effect, { readonly kind: "found" }>;

/** Whether a rule on the way of any outcome has an effect. */
export function hasEffect(outcomes: readonly Outcome[], isMeant: (effect: Effect) => boolean): boolean {
  return outcomes.some(({ steps }) =>
    steps.some((step) => step.kind === "rule" && step.effects.some(isMeant)),
  );
}

function isFound(outcomes: readonly Outcome[], isMeant: (effect: Found) => boolean): boolean {
  return hasEffect(outcomes, (effect) => effect.kind === "found" && isMeant(effect));
}

/**
 * The list of endpoints that a connection may use. With externalTrafficPolicy Local, pods and the node itself
 * still reach the endpoints of the whole cluster.
 */
export function listOf(match: Match | undefined, outcomes: readonly Outcome[]): ListName {
  if (match?.frontend.policy !== "local") return "cluster";
  const isShortcut = ({ set, key }: Found) =>
    portEquivalent(set) === BALANCERS && parseId(Number(key))?.way === "cluster";
  return isFound(outcomes, isShortcut) ? "cluster" : "local";
}

/**
 * Whether session affinity keeps the client on its endpoint: it has an affinity entry whose endpoint still
 * exists.
 */
export function isKept(outcomes: readonly Outcome[]): boolean {
  return (
    isFound(outcomes, ({ set }) => set === AFFINITY) && !isFound(outcomes, ({ set }) => set === AFFINITY_IDS)
  );
}
