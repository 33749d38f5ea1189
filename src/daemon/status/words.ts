import { counted } from "../../base/text.ts";
import type { ExclusionReason } from "../../model/topology.ts";
import type { EndpointView, FrontendOrigin, FrontendView } from "../../ruleset/service-view.ts";

/** What kind of frontend it is. */
export const ORIGIN_WORDS: Readonly<Record<FrontendOrigin, string>> = {
  "cluster-ip": "cluster IP",
  "external-ip": "external IP",
  "load-balancer-ip": "load balancer",
  "node-port": "node port",
};

const REASON_WORDS: Readonly<Record<ExclusionReason, string>> = {
  "not-ready": "not ready",
  terminating: "terminating",
  "not-serving": "not serving",
  "not-local": "not on this node",
  "other-zone": "hinted for other zones",
  "other-node": "hinted for other nodes",
};

/** How something stands, for its colour: good, bad, or left out for a reason. */
export type Tone = "good" | "bad" | "idle";

/** A word with its colour. */
export interface Verdict {
  readonly tone: Tone;
  readonly says: string;
}

/** What becomes of an endpoint, over both lists. */
export function endpointVerdict({ cluster, local }: EndpointView): Verdict {
  const reason = (outcome: EndpointView["cluster"]) =>
    outcome === undefined || outcome === "used" ? "" : REASON_WORDS[outcome];
  if (cluster === "used" && (local === undefined || local === "used")) return { tone: "good", says: "used" };
  if (cluster === "used") return { tone: "good", says: `used, but not by policy Local: ${reason(local)}` };
  if (local !== "used") return { tone: "idle", says: reason(cluster) || reason(local) };
  return { tone: "good", says: cluster === undefined ? "used" : `used by policy Local only: ${reason(cluster)}` };
}

/** Whether any traffic goes to an endpoint. */
export function isUsed({ cluster, local }: EndpointView): boolean {
  return cluster === "used" || local === "used";
}

/** What becomes of a connection to a frontend that comes from outside. */
export function frontendVerdict(
  { outcome, endpoints, owner, policy }: FrontendView,
  service: string,
  isQuarantined: boolean,
): Verdict {
  if (isQuarantined) return { tone: "bad", says: "left out: the kernel refuses it" };
  if (owner === undefined) return { tone: "idle", says: "not programmed yet" };
  if (owner.service.name !== service) return { tone: "bad", says: `held by ${owner.name}` };
  if (outcome === "rejected") return { tone: "bad", says: "refused: no endpoints" };
  const where = policy === "local" ? " on this node" : "";
  if (outcome === "dropped") return { tone: "bad", says: `dropped: no endpoint${where}` };
  return { tone: "good", says: `${counted(endpoints.length, "endpoint")}${where}` };
}

/** How long ago, in one unit: `12 s`, `3 min`, `5 h`, `2 d`. */
export function durationWords(milliseconds: number): string {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} d`;
}
