import { durationText } from "../../base/duration.ts";
import { listText, listTextOf } from "../../base/text.ts";
import { chainRole, portEquivalent } from "../../features/frontends.ts";
import { FEATURES } from "../../features/registry.ts";
import type { Feature } from "../../features/seam/feature.ts";
import { familyOf } from "../../model/ip.ts";
import { hasClusterIP } from "../../model/service-port.ts";
import { EXTERNAL, EXTERNAL_LOCAL, MASQUERADING } from "../../ruleset/chain-names.ts";
import { contextOf } from "../../ruleset/node-context.ts";
import { HAIRPIN_CONNECTIONS } from "../../ruleset/sets.ts";
import type { Delivered, Effect, Outcome } from "../../trace/outcome.ts";
import { isEcho } from "../../trace/packet.ts";
import { hasEffect, isKept } from "./endpoints.ts";
import type { ExplainInput } from "./explain-input.ts";
import type { Connection, Note } from "./explanation.ts";
import type { Match } from "./match.ts";
import { isOtherTable, originalRuleText, placeText } from "./other-tables.ts";
import type { RuleStep } from "./steps.ts";
import type { Evidence } from "./verdict.ts";
import { drawnText, otherTimeoutReason, portText } from "./words.ts";

/**
 * Describes the effects of a Service's annotations on connections to one of its ports, the features that it
 * lacks, and its endpoints whose connections end.
 */
export function servicePortNotes(evidence: Evidence): Note[] {
  const { match, input } = evidence;
  if (match === undefined) return [];
  return [
    ...reducedNotes(match, input),
    ...featureNotes(match, evidence),
    ...ignoredNotes(match),
    ...shownNotes(evidence),
  ];
}

/**
 * Further facts about a connection: source address, affinity, source ranges, conflicts, hints. An echo
 * request has none.
 * @param all the outcomes by the tables of all software, if these were followed
 */
export function explainNotes(evidence: Evidence, all: readonly Outcome[]): Note[] {
  const { connection, match, outcomes, input } = evidence;
  if (isEcho(connection.protocol)) return [];
  return [
    ...sourceNotes(connection, all.some(({ kind }) => kind === "not-understood") ? outcomes : all, input),
    ...affinityNotes(evidence),
    ...servicePortNotes(evidence),
    ...drawNotes(evidence),
    ...(match === undefined
      ? shownNotes(evidence)
      : [...sourceRangeNotes(match), ...conflictNotes(match), ...hintsNotes(match, input)]),
    ...forwardedNotes(evidence),
  ];
}

/** The source address that the endpoint sees, and why. */
function sourceNotes({ from }: Connection, outcomes: readonly Outcome[], input: ExplainInput): Note[] {
  const delivered = outcomes.filter((one): one is Delivered => one.kind === "delivered");
  if (!delivered.some(({ translated }) => translated)) return [];
  const reasons = new Set(delivered.flatMap((outcome) => sourceReason(outcome, input) ?? []));
  const message = [...reasons];
  if (delivered.some(({ source }) => source === "kept")) {
    message.unshift(`${message.length === 0 ? "" : "mostly "}kept: the endpoint sees ${from.address}`);
  }
  return message.map((text) => ({ topic: "source", message: text }));
}

function sourceReason(outcome: Delivered, input: ExplainInput): string | undefined {
  if (outcome.source === "kept") return undefined;
  const rules = outcome.steps.filter((step): step is RuleStep => step.kind === "rule");
  const by = rules.find(({ effects }) => effects.some(({ kind }) => kind === "masquerade"));
  if (by !== undefined && isOtherTable(by.table))
    return `translated by ${placeText(by)}: ${originalRuleText(by)}`;
  return `masqueraded as this node's address: ${masqueradeReason(rules, input)}`;
}

function masqueradeReason(rules: readonly RuleStep[], { nodeContext }: ExplainInput): string {
  const isHairpin = (effect: Effect) =>
    effect.kind === "found" && portEquivalent(effect.set) === HAIRPIN_CONNECTIONS;
  if (rules.some(({ effects }) => effects.some(isHairpin))) return "hairpin: the client is its own endpoint";
  const isMarking = ({ chain, effects }: RuleStep) =>
    chain !== MASQUERADING &&
    effects.some((effect) => effect.kind === "assigned" && effect.register === "mark" && effect.value !== 0);
  const markings = rules.filter(isMarking);
  const marking = markings.find(({ table }) => !isOtherTable(table));
  const [first] = markings;
  if (marking === undefined && first !== undefined)
    return `${placeText(first)} sets the mark that requests it`;
  const chain = marking && portEquivalent(marking.chain);
  if (chain === EXTERNAL)
    return "externalTrafficPolicy is Cluster, and the answers must come back through this node";
  if (chain === EXTERNAL_LOCAL) return "this node itself uses an external address of the Service";
  return nodeContext.some(({ masqueradeAll }) => masqueradeAll)
    ? "--masquerade-all is set"
    : "the client uses a cluster IP, but is not a pod of this cluster (--cluster-cidr, --detect-local-mode)";
}

/** What features note about connections that this node forwards to endpoints. */
function forwardedNotes({ connection: { to, protocol }, outcomes, input }: Evidence): Note[] {
  const context = contextOf(input.nodeContext, familyOf(to));
  const isForwarded = outcomes.some((one) => one.kind === "delivered" && one.translated && !one.local);
  if (context === undefined || !isForwarded) return [];
  return FEATURES.flatMap((feature) => noted(feature, feature.words?.forwarded?.(context, protocol)));
}

/** Reads the timeout from the affinity map's update; it may be shorter than the Service's own. */
function affinityNotes({ match, outcomes, input: { live } }: Evidence): Note[] {
  // The updates of refused and dropped connections only record the refusal.
  const updates = outcomes.flatMap((outcome) => (outcome.kind === "delivered" ? outcome.updates : []));
  const [first] = updates;
  if (first === undefined) return [];
  const wanted = match?.port.service.affinitySeconds ?? 0;
  const why = otherTimeoutReason(first.timeout, wanted);
  const cut =
    wanted === 0 || first.timeout === wanted ? "" : ` (${why}; the Service asks for ${durationText(wanted)})`;
  const message = `the client keeps its endpoint until it has made no new connection for ${durationText(first.timeout)}${cut}, or the endpoint is removed; affinity is per Service port and policy`;
  const entries = live?.affinityEntries?.filter(({ map }) => map === first.map);
  const before = entries?.find(({ key }) => key === first.key) ?? entries?.[0];
  const known =
    before === undefined
      ? ""
      : `; ${isKept(outcomes) ? "known client" : "the endpoint of this client is gone"}; entry expires in ${before.expires}`;
  return [{ topic: "affinity", message: `${message}${known}` }];
}

/** Names the features that a Service port lacks because a budget is used up. */
function reducedNotes({ port }: Match, { state }: ExplainInput): Note[] {
  return state.budgets.features.flatMap(({ name, topic, text }): Note[] => {
    const reason = state.budgets.without(name).get(port.key);
    return reason === undefined ? [] : [{ topic, message: `served without ${text}: ${reason}` }];
  });
}

/** Names annotations without effect: invalid ones, and those of features that are off. */
function ignoredNotes({ port: { service } }: Match): Note[] {
  return (service.ignoredAnnotations ?? []).map(({ annotation, reason, consequence }) => ({
    topic: "annotation",
    message: `${annotation} ${reason}; ${consequence}`,
  }));
}

/** What features note about a service port as it is served. */
function featureNotes({ port }: Match, { outcomes, input }: Evidence): Note[] {
  const { state, nodeContext } = input;
  const rules = state.families[port.family]?.servicePortRules(port.key);
  const context = contextOf(nodeContext, port.family);
  if (rules === undefined || context === undefined) return [];
  const of = {
    context,
    hasEffect: (kind: string) => hasEffect(outcomes, (effect) => effect.kind === kind),
  };
  return FEATURES.flatMap((feature) => {
    const { ruleset, words } = feature;
    const hasElements = rules.ofFeatures?.some(({ part }) => part === ruleset) ?? false;
    return noted(feature, words?.note?.(rules.port, { ...of, hasElements }));
  });
}

function noted({ name, ruleset, words }: Feature, message: string | undefined): Note[] {
  return message === undefined ? [] : [{ topic: words?.topic ?? ruleset?.budget?.topic ?? name, message }];
}

function sourceRangeNotes({ frontend, port: { service, family } }: Match): Note[] {
  if (!frontend.guarded) return [];
  const ranges = listText(service.loadBalancerSourceRanges[family], 8);
  return [
    { topic: "source ranges", message: `only clients in ${ranges} are allowed (loadBalancerSourceRanges)` },
  ];
}

function conflictNotes({ port, frontend, losers }: Match): Note[] {
  if (losers.length === 0) return [];
  const why = hasClusterIP(port, frontend.address) ? "has it as its cluster IP" : "is older and has it";
  const others = `${listTextOf(losers, portText)} also ${losers.length === 1 ? "wants" : "want"}`;
  const message = `${others} this address and port; ${port.service.name} ${why}`;
  return [{ topic: "conflict", message }];
}

/**
 * Explains why topology hints are ignored: every ready endpoint must have hints, and one of them must be for
 * this node or zone (KEP-2433, KEP-3015). Empty if there are no hints, or if they are used.
 */
function hintsNotes({ view, frontend }: Match, { nodeContext, cache }: ExplainInput): Note[] {
  if (frontend.policy === "local" || view.choice.topology !== "none" || view.choice.cluster.length === 0)
    return [];
  const ready = view.endpoints.map(({ endpoint }) => endpoint).filter(({ source }) => source.ready);
  const hints = ready.map(({ source }) => [...source.zoneHints, ...source.nodeHints]);
  if (hints.every(({ length }) => length === 0)) return [];
  const without = ready[hints.findIndex(({ length }) => length === 0)];
  const place = contextOf(nodeContext, familyOf(ready[0]?.address ?? ""))?.place ?? cache.node;
  const here =
    place.zone === "" ? `${place.name}, whose zone is not known` : `${place.name} or ${place.zone}`;
  const reason =
    without === undefined ? `none is for ${here}` : `${without.address} has none, and all must have some`;
  return [{ topic: "hints", message: `the endpoints have hints, which are ignored: ${reason}` }];
}

/** What features note about how an endpoint is drawn. */
function drawNotes({ match, outcomes }: Evidence): Note[] {
  const steps = outcomes.flatMap((outcome) => outcome.steps);
  const [choice] = steps.flatMap((step) => (step.kind === "rule" ? choiceIn(step) : []));
  if (choice === undefined) return [];
  const affinity = !choice.isSticky || isKept(outcomes) ? "" : "; session affinity keeps the choice";
  return FEATURES.flatMap((feature) => {
    const words = feature.words?.draws?.[choice.method];
    return noted(feature, words && `${words.note(choice, match?.port.service)}${affinity}`);
  });
}

function choiceIn({ chain, effects }: RuleStep) {
  const role = chainRole(chain);
  const effect = effects.find(({ kind }) => kind === "random" || kind === "hash");
  if ((role?.kind !== "draw" && role?.kind !== "choose") || effect === undefined) return [];
  const { method, count } = role.draw;
  const own = effect.kind === "hash" ? effect.value : undefined;
  return [{ method: method.name, count, endpoints: drawnText(count), own, isSticky: role.kind === "choose" }];
}

/** What features note from the daemon's state, else from the kernel's table. */
function shownNotes({ connection, match, input }: Evidence): Note[] {
  const { daemon, live, objectsKnown } = input;
  const table = live?.ruleset[familyOf(connection.to)];
  const isUnknown = connection.protocol !== "tcp" || (match === undefined && objectsKnown);
  const ports = new Set(match?.view.endpoints.map(({ endpoint }) => endpoint.port));
  return FEATURES.flatMap((feature) => {
    const { name, words } = feature;
    const shown = daemon?.features[name];
    const messages =
      shown !== undefined && daemon !== undefined
        ? match && words?.shownNotes?.(match.port, { shown, now: daemon.now, portText: portText(match.port) })
        : table && !isUnknown && words?.tableNotes?.(table, ports);
    return messages ? messages.flatMap((message) => noted(feature, message)) : [];
  });
}
