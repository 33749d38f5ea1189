import type { ObjectCache } from "../../../model/object-cache.ts";
import type { Connection, ExplainedEndpoint } from "../explanation.ts";
import type { Match } from "../match.ts";
import { portText } from "../words.ts";
import type { Reason } from "./endpoint-causes.ts";

/**
 * The cause and action for a connection that goes to endpoints: it may still fail, because hints leave it few
 * endpoints, because these terminate, or because of the endpoints themselves.
 */
export function balancedReason(
  { protocol }: Connection,
  match: Match | undefined,
  endpoints: readonly ExplainedEndpoint[],
  cache: ObjectCache,
): Reason {
  const used = endpoints.filter(({ probability }) => probability > 0);
  const of = match === undefined ? "that the rules have for it" : `of ${portText(match.port)}`;
  const isOf = (reason: string) => endpoints.some(({ excluded }) => excluded?.reason === reason);
  const isKept = isOf("affinity");
  const which = isKept
    ? "the endpoint that affinity keeps this client on,"
    : isOf("hash")
      ? "the endpoint that the hash has for this client,"
      : whichText(used.length, endpoints.length);
  const goes = `goes to ${which} ${of}`;
  const hinted = endpoints.filter(({ excluded }) => isHint(excluded?.reason));
  if (hinted.length > 0 && !isKept) return hintsReason(used.length, hinted, of, cache);
  if (match !== undefined && areTerminating(used, match)) return terminatingReason(goes);
  const ports = new Set(used.map(({ port }) => port));
  const port = ports.size === 1 ? `port ${used[0]?.port} (${protocol})` : "that port";
  return {
    cause: "served",
    message: goes,
    action: `if it still fails, check whether the pod listens on ${port} and whether a NetworkPolicy lets the client in`,
  };
}

function whichText(used: number, all: number): string {
  if (used > 1) return `one of ${used} endpoints`;
  return all === 1 ? "the only endpoint" : "the only usable endpoint";
}

function isHint(reason: string | undefined): boolean {
  return reason === "other-zone" || reason === "other-node";
}

function hintsReason(used: number, hinted: readonly ExplainedEndpoint[], of: string, { node }: ObjectCache): Reason {
  const byNode = hinted[0]?.excluded?.reason === "other-node";
  const here = byNode ? `on ${node.name}` : `in ${node.zone}`;
  return {
    cause: "hints",
    message: `goes to ${used} of ${used + hinted.length} ready endpoints ${of}: hints keep the others for other ${byNode ? "nodes" : "zones"}`,
    action: `if it fails, these few are at fault or too busy: run more of them ${here}, or let the Service have no hints (spec.trafficDistribution, annotation service.kubernetes.io/topology-mode)`,
  };
}

function areTerminating(used: readonly ExplainedEndpoint[], { view }: Match): boolean {
  const targets = new Set(used.map(({ address, port }) => `${address} . ${port}`));
  const views = view.endpoints.filter(({ endpoint }) => targets.has(endpoint.target));
  return views.length > 0 && views.every(({ endpoint: { source } }) => !source.ready);
}

function terminatingReason(goes: string): Reason {
  return {
    cause: "terminating-endpoints",
    message: `${goes}, though none is ready: terminating endpoints are used as fallback`,
    action: "see why no new pod becomes ready; these will soon be gone",
  };
}
