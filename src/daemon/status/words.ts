import { counted } from "../../base/text.ts";
import type { EndpointView, FrontendView } from "../../ruleset/service-view.ts";
import { EXCLUSION_NAMES, OUTCOME_NAMES } from "../../ruleset/service-view.ts";

/** The colour of a state: good, bad, or excluded for a reason. */
export type Tone = "good" | "bad" | "idle";

/** A word with its colour. */
export interface Verdict {
  readonly tone: Tone;
  readonly message: string;
}

/** The outcome of an endpoint, over both lists. */
export function endpointVerdict({ cluster, local }: EndpointView): Verdict {
  const reason = (outcome: EndpointView["cluster"]) =>
    outcome === undefined || outcome === "used" ? "" : EXCLUSION_NAMES[outcome];
  if (cluster === "used" && (local === undefined || local === "used")) return { tone: "good", message: "used" };
  if (cluster === "used") return { tone: "good", message: `used, but not by policy Local: ${reason(local)}` };
  if (local !== "used") return { tone: "idle", message: reason(cluster) || reason(local) };
  return { tone: "good", message: cluster === undefined ? "used" : `used by policy Local only: ${reason(cluster)}` };
}

/** Whether any traffic goes to an endpoint. */
export function isUsed({ cluster, local }: EndpointView): boolean {
  return cluster === "used" || local === "used";
}

/** The outcome of a connection from outside to a frontend. */
export function frontendVerdict(
  { outcome, endpoints, owner, policy }: FrontendView,
  service: string,
  isQuarantined: boolean,
): Verdict {
  if (isQuarantined) return { tone: "bad", message: "excluded: the kernel refuses it" };
  if (owner === undefined) return { tone: "idle", message: "not programmed yet" };
  if (owner.service.name !== service) return { tone: "bad", message: `held by ${owner.name}` };
  const where = policy === "local" ? " on this node" : "";
  if (outcome === "served") return { tone: "good", message: `${counted(endpoints.length, "endpoint")}${where}` };
  return { tone: "bad", message: `${OUTCOME_NAMES[outcome]}: no endpoints${where}` };
}
