import { FAMILY_NAMES } from "../../base/family.ts";
import { listTextOf } from "../../base/text.ts";
import { familyOf } from "../../model/ip.ts";
import type { Service } from "../../model/service.ts";
import { contextOf } from "../../ruleset/node-context.ts";
import { type FrontendView, viewService } from "../../ruleset/service-view.ts";
import { isEcho, isLocal } from "../../trace/packet.ts";
import type { ExplainInput } from "./explain-input.ts";
import type { Connection } from "./explanation.ts";
import { servicesAt } from "./match.ts";
import type { Reason } from "./service-reasons.ts";

/** Returns the reason why this node answers an echo request. */
export function answeredPing({ to }: Connection, input: ExplainInput): Reason {
  const used = servicesAt(to, input).filter((service) =>
    frontendsAt(to, service, input).some(({ outcome }) => outcome !== "refused"),
  );
  const has = used.length === 1 ? "has" : "have";
  const because = used.length === 0 ? "" : `, because ${servicesText(used)} ${has} endpoints`;
  return {
    cause: "served",
    message: `this node answers with the address ${to}${because}`,
    action: "no endpoint is contacted: connect to a port to see whether one works",
  };
}

/**
 * Returns the reason why nft-proxy does not answer an echo request to a Service or this node; undefined for
 * connections and other addresses.
 */
export function unansweredPing(connection: Connection, input: ExplainInput): Reason | undefined {
  const { to, protocol } = connection;
  if (!isEcho(protocol)) return undefined;
  if (isLocal(input.host, to)) {
    return {
      cause: "not-a-service",
      message: `${to} is an address of this node, which answers pings without nft-proxy`,
      action: "if it does not, check the host's firewall and its settings of ICMP",
    };
  }
  const services = servicesAt(to, input);
  if (services.length === 0) return undefined;
  return optionReason(to, services, input) ?? frontendReason(connection, services, input);
}

function optionReason(to: string, services: readonly Service[], input: ExplainInput): Reason | undefined {
  const family = familyOf(to);
  const { answerPing = false, nodeAddress = "" } = contextOf(input.nodeContext, family) ?? {};
  if (answerPing && nodeAddress !== "") return undefined;
  const why = answerPing
    ? `this node has no ${FAMILY_NAMES[family]} address of its own to answer with`
    : "this node does not answer pings to Services (--answer-ping is off)";
  return {
    cause: "no-pings",
    message: `${to} belongs to ${servicesText(services)}, but ${why}`,
    action: answerPing
      ? `add an InternalIP of ${FAMILY_NAMES[family]} to the Node, or set --bind-address`
      : "connect to one of its ports to see whether it works",
  };
}

/** The reason why no frontend at the address serves the client. */
function frontendReason({ from, to }: Connection, services: readonly Service[], input: ExplainInput): Reason {
  const all = services.flatMap((service) => frontendsAt(to, service, input));
  const named = servicesText(services);
  if (all.some(({ outcome }) => outcome === "served")) {
    return {
      cause: "source-ranges",
      message: `${from.address} is in none of the loadBalancerSourceRanges of ${named}, and gets no answer from ${to}`,
      action: "add its address to spec.loadBalancerSourceRanges to allow it",
    };
  }
  if (all.some(({ outcome }) => outcome === "dropped")) {
    return {
      cause: "no-local-endpoints",
      message: `the traffic policy of ${named} is Local, but no ready endpoint runs on this node, ${input.cache.node.name}`,
      action: "ping a node that has an endpoint, or set the policy to Cluster",
    };
  }
  return {
    cause: "no-endpoints",
    message: `${named} has no ready endpoint, and only addresses with one answer pings`,
    action: "explain a port of the Service to see why",
  };
}

/** The frontends of a Service at one of its addresses that are its own. */
function frontendsAt(
  address: string,
  { name }: Service,
  { cache, nodeContext, state }: ExplainInput,
): FrontendView[] {
  return viewService(cache, name, nodeContext, state).flatMap(({ port, frontends }) =>
    frontends.filter((one) => one.address === address && one.owner?.key === port.key),
  );
}

function servicesText(services: readonly Service[]): string {
  return `Service${services.length === 1 ? "" : "s"} ${listTextOf(services, ({ name }) => name)}`;
}
