import { assertNever } from "../../base/errors.ts";
import { familyOf } from "../../model/ip.ts";
import type { ExclusionReason, Place } from "../../model/topology.ts";
import type { EndpointView } from "../../ruleset/service-view.ts";
import type { Summary } from "../../trace/outcome.ts";
import type { ExplainInput } from "./explain-input.ts";
import type { ExcludedEndpoint, ExplainedEndpoint } from "./explanation.ts";
import type { Subject } from "./match.ts";
import { rounded } from "./steps.ts";
import { listText } from "./words.ts";

/** Why an endpoint that is usable gets nothing of this connection. */
const NOT_REACHED: ExcludedEndpoint = {
  reason: "not-reached",
  says: "usable, but the connection does not come so far",
};
const NOT_IN_KERNEL: ExcludedEndpoint = { reason: "not-in-kernel", says: "usable, but the kernel does not have it" };
const KEPT_ELSEWHERE: ExcludedEndpoint = {
  reason: "affinity",
  says: "usable, but affinity keeps this client elsewhere",
};

/**
 * The endpoints of a Service port, those that get connections and those that do not; and those that only the rules
 * know, where these are not what the objects ask for.
 * @param list whether endpoints of the whole cluster may be chosen, or of this node only
 * @param isKept whether session affinity has chosen, for the client was here before
 */
export function explainEndpoints(
  subject: Subject | undefined,
  list: "cluster" | "local",
  isKept: boolean,
  summary: Summary,
  input: ExplainInput,
): ExplainedEndpoint[] {
  const chances = new Map<string, number>();
  for (const { address, port, translated, probability } of summary.destinations) {
    if (!translated) continue;
    const target = `${address} . ${port}`;
    chances.set(target, (chances.get(target) ?? 0) + probability);
  }
  const views = subject?.view.endpoints ?? [];
  const unchosen = chances.size === 0 ? NOT_REACHED : isKept ? KEPT_ELSEWHERE : NOT_IN_KERNEL;
  const known = views.map((view) => explainEndpoint(view, list, chances, unchosen, input));
  const targets = new Set(views.map(({ endpoint }) => endpoint.target));
  const others = [...chances]
    .filter(([target]) => !targets.has(target))
    .map(([target, chance]) => bare(target, chance));
  return [...known, ...others];
}

function explainEndpoint(
  view: EndpointView,
  list: "cluster" | "local",
  chances: ReadonlyMap<string, number>,
  unchosen: ExcludedEndpoint,
  input: ExplainInput,
): ExplainedEndpoint {
  const { address, port, target, source } = view.endpoint;
  const probability = rounded(chances.get(target) ?? 0);
  const known = { address, port, node: source.nodeName, zone: source.zone, pod: source.pod, probability };
  return probability > 0 ? known : { ...known, excluded: excluded(view, list, unchosen, input) };
}

function bare(target: string, chance: number): ExplainedEndpoint {
  const [address = "", port] = target.split(" . ");
  return { address, port: Number(port), node: "", zone: "", pod: "", probability: rounded(chance) };
}

function excluded(
  view: EndpointView,
  list: "cluster" | "local",
  unchosen: ExcludedEndpoint,
  { nodeContext, cache }: ExplainInput,
): ExcludedEndpoint {
  const outcome = view[list] ?? "used";
  if (outcome === "used") return unchosen;
  const context = nodeContext.find(({ family }) => family === familyOf(view.endpoint.address));
  return { reason: outcome, says: exclusionWords(outcome, view, context?.place ?? cache.node) };
}

/** Why an endpoint is left out, to stand beside it. */
function exclusionWords(reason: ExclusionReason, { endpoint: { source } }: EndpointView, place: Place): string {
  switch (reason) {
    case "not-ready":
      return "not ready";
    case "terminating":
      return "terminating";
    case "not-serving":
      return source.terminating ? "terminating, and serves no more" : "not ready";
    case "not-local":
      return `not local: runs on ${source.nodeName || "no known node"}`;
    case "other-zone":
      return `hinted for ${listText(source.zoneHints)}; this node is in ${place.zone || "no zone"}`;
    case "other-node":
      return `hinted for ${listText(source.nodeHints)}; this node is ${place.name}`;
    default:
      return assertNever(reason);
  }
}
