import type { Outcome, Summary } from "../../trace/outcome.ts";
import { noEndpointReason, type Reason } from "./endpoint-causes.ts";
import type { Connection, ExplainedEndpoint, Result, Verdict } from "./explanation.ts";
import { outsideReason } from "./outside-causes.ts";
import type { Situation } from "./situation.ts";
import type { Subject } from "./subject.ts";
import { destinationText, listText, ORIGINS, portText } from "./words.ts";

/** What a verdict is made from. */
export interface Evidence {
  readonly connection: Connection;
  readonly subject: Subject | undefined;
  readonly endpoints: readonly ExplainedEndpoint[];
  readonly outcomes: readonly Outcome[];
  readonly summary: Summary;
}

/** What becomes of the connection, why, and what to do about it. */
export function verdictOf(evidence: Evidence, situation: Situation): Verdict {
  const result = resultOf(evidence.summary);
  const reason = reasonOf(result, evidence, situation);
  return { result, ...contested(reason, evidence) };
}

/** What an evaluation comes to. */
function resultOf({ refused, dropped, destinations }: Summary): Result {
  if (destinations.length === 0) return dropped === 0 ? "refused" : refused === 0 ? "dropped" : "varies";
  if (refused + dropped > 0) return "varies";
  if (destinations.every(({ translated }) => translated)) return "balanced";
  return destinations.some(({ translated }) => translated) ? "varies" : "passed";
}

function reasonOf(result: Result, evidence: Evidence, situation: Situation): Reason {
  switch (result) {
    case "balanced":
      return balancedReason(evidence, situation);
    case "varies":
      return variesReason(evidence);
    case "passed":
      return outsideReason(evidence.connection, situation);
    case "refused":
    case "dropped":
      return stoppedReason(result, evidence, situation);
  }
}

const CHECK_POD =
  "if it fails all the same, see whether the pod listens on that port and whether a NetworkPolicy lets the client in";

function balancedReason({ connection, subject, endpoints }: Evidence, { world }: Situation): Reason {
  const used = endpoints.filter(({ probability }) => probability > 0);
  const of = subject === undefined ? "that the rules have for it" : `of ${portText(subject.port)}`;
  const goes = used.length === 1 ? `goes to the only endpoint ${of}` : `goes to one of ${used.length} endpoints ${of}`;
  const hinted = endpoints.filter(
    ({ leftOut }) => leftOut?.reason === "other-zone" || leftOut?.reason === "other-node",
  );
  if (hinted.length > 0) {
    const where = hinted[0]?.leftOut?.reason === "other-node" ? "nodes" : "zones";
    const here = where === "nodes" ? `on ${world.node.name}` : `in ${world.node.zone}`;
    return {
      cause: "hints",
      says: `goes to ${used.length} of ${used.length + hinted.length} ready endpoints ${of}: hints keep the others for other ${where}`,
      action: `if it fails, these few are at fault or too busy: run more of them ${here}, or let the Service have no hints (spec.trafficDistribution, annotation service.kubernetes.io/topology-mode)`,
    };
  }
  const list = connectionList(subject, endpoints);
  if (list === "terminating") {
    return {
      cause: "terminating-endpoints",
      says: `${goes}, though none is ready: it serves on while it terminates`,
      action: "see why no new pod becomes ready; this one will soon be gone",
    };
  }
  const ports = new Set(used.map(({ port }) => port));
  const port = ports.size === 1 ? `port ${used[0]?.port}` : "that port";
  return { cause: "balanced", says: goes, action: CHECK_POD.replace("that port", `${port} (${connection.protocol})`) };
}

function connectionList(
  subject: Subject | undefined,
  endpoints: readonly ExplainedEndpoint[],
): "ready" | "terminating" {
  const used = new Set(
    endpoints.filter(({ probability }) => probability > 0).map(({ address, port }) => `${address} . ${port}`),
  );
  const views = subject?.view.endpoints.filter(({ endpoint }) => used.has(endpoint.target)) ?? [];
  return views.length > 0 && views.every(({ endpoint: { source } }) => !source.ready) ? "terminating" : "ready";
}

function variesReason({ summary }: Evidence): Reason {
  const percent = (share: number) => `${Math.round(share * 100)} %`;
  const { refused, dropped } = summary;
  return {
    cause: "rules",
    says: `chance decides: ${percent(refused)} refused, ${percent(dropped)} dropped, the rest goes on`,
    action: "these are not the rules that we make: see nft-proxy diff",
  };
}

/** The objects' reason, where the rules stopped it in the place that the objects explain. */
function stoppedReason(result: "refused" | "dropped", evidence: Evidence, situation: Situation): Reason {
  const { connection, subject, outcomes } = evidence;
  const chain = decider(outcomes);
  if (chain.startsWith("firewall-")) return sourceRangeReason(evidence);
  if (chain === "cluster-ips-check" || chain === "") return outsideReason(connection, situation);
  if (subject !== undefined) return noEndpointReason(subject, situation);
  return {
    cause: "no-endpoints",
    says: `the rules have ${destinationText(connection)} as a Service ${result === "dropped" ? "without an endpoint on this node" : "without endpoints"}`,
    action: "ask again with the objects: --from PATH, or a kubeconfig",
  };
}

/** The chain of the rule that ended the packet; "" when it was none. */
function decider(outcomes: readonly Outcome[]): string {
  const last = outcomes[0]?.steps.at(-1);
  return last?.kind === "rule" ? last.chain : "";
}

function sourceRangeReason({ connection, subject }: Evidence): Reason {
  const { service, family } = subject?.port ?? {};
  const ranges = service === undefined || family === undefined ? [] : service.loadBalancerSourceRanges[family];
  const of = service === undefined ? "" : ` of Service ${service.name}`;
  return {
    cause: "source-ranges",
    says: `${connection.from.address} is in none of the loadBalancerSourceRanges${of}${ranges.length === 0 ? "" : ` (${listText(ranges)})`}`,
    action: "add its address to spec.loadBalancerSourceRanges if it is to be let in",
  };
}

/** Whoever lost the frontend is who a person asks about when it does not answer. */
function contested(reason: Reason, { subject }: Evidence): Reason {
  if (subject === undefined || subject.losers.length === 0) return reason;
  const { port, frontend, losers } = subject;
  const names = listText(losers.map(({ service }) => service.name));
  const what =
    frontend.origin === "node-port" ? `NodePort ${frontend.port}` : `${ORIGINS[frontend.origin]} ${frontend.address}`;
  return {
    cause: "contested",
    says: `${what} belongs to Service ${port.service.name}, the oldest that wants it, not to ${names}; ${reason.says}`,
    action: `give each Service its own; ${losers[0]?.service.name} takes over when ${port.service.name} lets go`,
  };
}
