import { durationText } from "../../../base/duration.ts";
import { listText } from "../../../base/text.ts";
import { hasClusterIP } from "../../../model/service-port.ts";
import { EXTERNAL, EXTERNAL_LOCAL, MASQUERADING } from "../../../ruleset/chain-names.ts";
import { HAIRPIN_CONNECTIONS } from "../../../ruleset/sets.ts";
import type { Outcome } from "../../../trace/outcome.ts";
import type { ExplainInput } from "../explain-input.ts";
import type { Connection, Note } from "../explanation.ts";
import { isKept } from "../found.ts";
import type { Match } from "../match.ts";
import { chainText, isOtherTable, ruleAsItStands } from "../other-tables.ts";
import type { RuleStep } from "../step-words.ts";
import { portText } from "../words.ts";
import { hintsNotes } from "./hints-note.ts";
import { schedulerNotes } from "./scheduler-notes.ts";
import { vanishedNotes } from "./vanished-notes.ts";

/** The outcomes of a connection by nft-proxy's own table, and by those of all software where these were followed. */
interface NotedOutcomes {
  readonly own: readonly Outcome[];
  readonly all: readonly Outcome[];
}

/** Further facts about a connection: source address, affinity, source ranges, conflicts, hints. */
export function explainNotes(
  connection: Connection,
  match: Match | undefined,
  { own, all }: NotedOutcomes,
  input: ExplainInput,
): Note[] {
  return [
    ...sourceNotes(connection, all.some(({ kind }) => kind === "not-understood") ? own : all, input),
    ...affinityNotes(own, input),
    ...schedulerNotes(match, own),
    ...(match === undefined ? [] : [...sourceRangeNotes(match), ...conflictNotes(match), ...hintsNotes(match, input)]),
    ...vanishedNotes(connection, match, input),
  ];
}

type Delivered = Extract<Outcome, { readonly kind: "delivered" }>;

/** The source address that the endpoint sees, and why. */
function sourceNotes({ from }: Connection, outcomes: readonly Outcome[], input: ExplainInput): Note[] {
  const delivered = outcomes.flatMap((outcome): Delivered[] => (outcome.kind === "delivered" ? [outcome] : []));
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
  const rules = outcome.steps.flatMap((step): RuleStep[] => (step.kind === "rule" ? [step] : []));
  const by = rules.find(({ effects }) => effects.some(({ kind }) => kind === "masquerade"));
  if (by !== undefined && isOtherTable(by.table)) return `translated by ${chainText(by)}: ${ruleAsItStands(by)}`;
  return `masqueraded as this node's address: ${masqueradeReason(rules, input)}`;
}

function masqueradeReason(rules: readonly RuleStep[], { nodeContext }: ExplainInput): string {
  if (rules.some(({ effects }) => effects.some((one) => one.kind === "found" && one.set === HAIRPIN_CONNECTIONS)))
    return "hairpin: the client is its own endpoint";
  const isMarking = ({ chain, effects }: RuleStep) =>
    chain !== MASQUERADING &&
    effects.some((effect) => effect.kind === "assigned" && effect.register === "mark" && effect.value !== 0);
  const markings = rules.filter(isMarking);
  const marking = markings.find(({ table }) => !isOtherTable(table));
  const [first] = markings;
  if (marking === undefined && first !== undefined) return `${chainText(first)} sets the mark that asks for it`;
  if (marking?.chain === EXTERNAL)
    return "externalTrafficPolicy is Cluster, and the answers must come back through this node";
  if (marking?.chain === EXTERNAL_LOCAL) return "this node itself uses an external address of the Service";
  return nodeContext.some(({ masqueradeAll }) => masqueradeAll)
    ? "--masquerade-all asks for it"
    : "the client is no pod of this cluster (--cluster-cidr, --detect-local-mode), yet uses a cluster IP";
}

/** Taken from the affinity map's updates while the packet is followed, not from the Service's fields. */
function affinityNotes(outcomes: readonly Outcome[], { live }: ExplainInput): Note[] {
  // Refused and dropped connections are recorded in a set as well, but keep no endpoint.
  const updates = outcomes.flatMap((outcome) => (outcome.kind === "delivered" ? outcome.updates : []));
  const [first] = updates;
  if (first === undefined) return [];
  const message = `the client keeps its endpoint until it has made no new connection for ${durationText(first.timeout)}, or the endpoint is removed; affinity is per Service port, whichever of its addresses the client uses`;
  const before = live?.affinityEntries.find(({ map }) => map === first.map);
  const known =
    before === undefined
      ? ""
      : `; ${isKept(outcomes) ? "known client" : "the endpoint of this client is gone"}; entry expires in ${before.expires}`;
  return [{ topic: "affinity", message: `${message}${known}` }];
}

function sourceRangeNotes({ frontend, port: { service, family } }: Match): Note[] {
  if (!frontend.guarded) return [];
  const ranges = listText(service.loadBalancerSourceRanges[family], 8);
  return [{ topic: "source ranges", message: `only ${ranges} may come (loadBalancerSourceRanges)` }];
}

function conflictNotes({ port, frontend, losers }: Match): Note[] {
  const why = hasClusterIP(port, frontend.address) ? "has it as its cluster IP" : "is older and has it";
  return losers.map((loser) => ({
    topic: "conflict",
    message: `${portText(loser)} wants the same address and port; ${port.service.name} ${why}`,
  }));
}
