import type { Service } from "../../model/service.ts";
import { frontendKey } from "../../ruleset/keys.ts";
import type { FamilyContext } from "../../ruleset/node-context.ts";
import type { ExplainedPacket, FeatureReason } from "../seam/feature.ts";
import { hasPortRanges, rangesOf } from "./parse.ts";
import { areVirtual } from "./rules.ts";

/** What ranges do at an address of a Node: they are not served there, or take ports of its own programs. */
export function atNodeAddress(service: Service, context: FamilyContext) {
  if (!hasPortRanges(service)) return undefined;
  const reason = areVirtual(context)
    ? "a port range is not served there on that node, but takes connections of other nodes to its programs"
    : "a port range takes connections to the node's own programs";
  return { code: "port-range-on-node", reason };
}

/** Why a port that is in a Service's range is not served. */
export function unserved(packet: ExplainedPacket): FeatureReason | undefined {
  const { to, port, protocol, services, context, isLocal, without } = packet;
  const contains = (service: Service) =>
    service.ports.some(
      (spec) =>
        spec.protocol === protocol &&
        rangesOf({ service, spec })?.some(({ first, last }) => first <= port && port <= last),
    );
  const service = services.find(contains);
  if (service === undefined || context === undefined) return undefined;
  const range = `${port}/${protocol} is in a port range of Service ${service.name}`;
  if (context.apiServers.includes(frontendKey(to, protocol, port))) {
    return {
      message: `${range}, but nft-proxy connects to an API server there, which no range can replace`,
      action: "give the Service another address, or exclude the port from the range",
    };
  }
  const budget = without(service);
  if (budget !== undefined) {
    return {
      message: `${range}, which is served without its ranges: ${budget}`,
      action: "delete unused ranges or Services, or raise --max-port-ranges",
    };
  }
  if (!isLocal || !areVirtual(context)) return undefined;
  return {
    message: `${range}, but ${to} is an address of this node, which serves no ranges (see --port-ranges)`,
    action: "connect to another address of the Service, or list the port in spec.ports",
  };
}
