import { FAMILY_NAMES } from "../../base/family.ts";
import { listText } from "../../base/text.ts";
import { INTERVAL_FEATURE, INTERVALS } from "../../features/frontends.ts";
import type { IgnoredService } from "../../kube/decode/ignored-service.ts";
import { excessText } from "../../model/budgets.ts";
import { canonicalAddress, cidrContains, familyOf, isLoopback } from "../../model/ip.ts";
import { FEATURE_NOT_ENABLED, type Service } from "../../model/service.ts";
import { servicePortsOf } from "../../model/service-port.ts";
import { portsText } from "../../ruleset/keys.ts";
import { contextOf } from "../../ruleset/node-context.ts";
import { isEcho, isLocal } from "../../trace/packet.ts";
import type { ExplainInput } from "./explain-input.ts";
import type { Connection } from "./explanation.ts";
import { featureReason } from "./feature-reason.ts";
import {
  endpointsAt,
  nodePortAt,
  servesIntervals,
  servesNodePorts,
  servicesAt,
  servicesWithNodePort,
} from "./match.ts";
import type { Reason } from "./service-reasons.ts";
import { destinationText, portSpecText, portText } from "./words.ts";

/** Returns the reason why no Service port serves a destination. */
export function outsideReason(connection: Connection, input: ExplainInput): Reason {
  return (
    ignored(connection, input) ??
    missingFamily(connection, input) ??
    loadBalancer(connection, input) ??
    overBudget(connection, input) ??
    ownEcho(connection, input) ??
    featureReason({ ...connection, isServed: false }, input) ??
    unservedPort(connection, input) ??
    unallocated(connection, input) ??
    otherNodePortAddress(connection, input) ??
    loopback(connection) ??
    notAService(connection, input)
  );
}

/** Returns the reason why nft-proxy does not handle a Service. @param subject the beginning of the message */
export function ignoredReason(
  { name, why, reason, externalName }: IgnoredService,
  subject: string = name,
): Reason {
  const message = `${subject} ${reason}`;
  switch (why) {
    case "other-proxy":
      return {
        cause: "other-proxy",
        message: `${message}, so nft-proxy makes no rules for it`,
        action: "check that the other proxy runs on this node, or remove the label",
      };
    case "headless":
      return {
        cause: "headless",
        message: `${message}: it has no address of its own, and its DNS name leads to the pods`,
        action: "connect to a pod by the Service's DNS name and the container's own port",
      };
    case "external-name":
      return {
        cause: "external-name",
        message: `${message}: its DNS name is an alias of ${externalName || "another name"}`,
        action: "connect to that name; no service proxy is involved",
      };
    case "no-cluster-ip":
      return {
        cause: "not-served",
        message,
        action: "create it in a cluster, or set spec.clusterIP in the file",
      };
  }
}

function ignored({ to, port, protocol }: Connection, input: ExplainInput): Reason | undefined {
  const found = input.ignored.find(
    ({ addresses, nodePorts }) =>
      addresses.includes(to) ||
      (servesNodePorts(to, input) && nodePorts.some((one) => one.port === port && one.protocol === protocol)),
  );
  if (found === undefined) return undefined;
  return ignoredReason(found, `${to} belongs to Service ${found.name}, which`);
}

/** On a host without IPv6, nft-proxy has no rules for the IPv6 addresses of Services. */
function missingFamily({ to }: Connection, input: ExplainInput): Reason | undefined {
  const family = familyOf(to);
  const [service] = servicesAt(to, input);
  if (service === undefined || contextOf(input.nodeContext, family) !== undefined) return undefined;
  const name = FAMILY_NAMES[family];
  return {
    cause: "not-served",
    message: `${to} belongs to Service ${service.name}, but this node's kernel has no ${name}, so no ${name} address is served`,
    action: `enable ${name} on the node and restart nft-proxy, or connect to an address of the other family`,
  };
}

function loadBalancer({ to }: Connection, { loadBalancers }: ExplainInput): Reason | undefined {
  const found = loadBalancers.find(({ address }) => address === to);
  if (found === undefined) return undefined;
  return {
    cause: "load-balancer",
    message: `only the load balancer of Service ${found.service} serves ${to} (ipMode: Proxy): packets to it leave this node`,
    action: "if it fails, check the load balancer and the route to it",
  };
}

function overBudget({ to, port, protocol }: Connection, input: ExplainInput): Reason | undefined {
  const withNodePort = servesNodePorts(to, input) ? servicesWithNodePort({ port, protocol }, input) : [];
  for (const service of [...servicesAt(to, input), ...withNodePort]) {
    const excess = input.state.budgets.excessOf(service.name);
    if (excess === undefined) continue;
    const isOwn = excess.left === undefined;
    return {
      cause: "over-budget",
      message: `${to} belongs to Service ${service.name}, which is quarantined: ${excessText(excess)}`,
      action: isOwn
        ? "split the Service, or give it fewer of these; the flag raises the budget of all Services"
        : "give it fewer ports, addresses or endpoints, or delete older, unused Services; the flag raises the budget",
    };
  }
  return undefined;
}

/** An echo request to an address of this node. */
function ownEcho({ to, protocol }: Connection, { host }: ExplainInput): Reason | undefined {
  if (!isEcho(protocol) || !isLocal(host, to)) return undefined;
  return {
    cause: "not-a-service",
    message: `${to} is an address of this node, which answers pings without nft-proxy`,
    action: "if it does not, check the host's firewall and its settings of ICMP",
  };
}

function unservedPort({ to, port, protocol }: Connection, input: ExplainInput): Reason | undefined {
  const services = servicesAt(to, input);
  if (services.length === 0) return undefined;
  const ports = services.map((service) => servedPorts(service, to, input));
  const served = services.map(({ name }, index) => `${name}, which serves ${listText(ports[index] ?? [])}`);
  return {
    cause: "unserved-port",
    message: `${to} belongs to Service ${listText(served)}, but not ${port}/${protocol}${intervalsOff(services)}`,
    action: `connect to ${ports.flat().length === 1 ? "that port" : "one of these ports"}, or add the port to the Service`,
  };
}

/** The part of a sentence about Services whose intervals of ports are ignored, as the feature is off. */
function intervalsOff(services: readonly Service[]): string {
  const names = INTERVAL_FEATURE?.annotations?.map(({ name }) => name) ?? [];
  const [off] = services.flatMap(({ ignoredAnnotations = [] }) =>
    ignoredAnnotations.filter(
      ({ annotation, event }) => names.includes(annotation) && event === FEATURE_NOT_ENABLED,
    ),
  );
  return off === undefined ? "" : `; its annotation ${off.annotation} ${off.reason}`;
}

/** The ports that a Service serves at an address: those of its spec, then its intervals. */
function servedPorts(service: Service, address: string, input: ExplainInput): string[] {
  const without = input.state.budgets.without(INTERVAL_FEATURE?.name ?? "");
  const served = servesIntervals(address, input)
    ? servicePortsOf(service).filter(({ key, family }) => family === familyOf(address) && !without.has(key))
    : [];
  const intervals = served.flatMap((port) =>
    (INTERVALS?.intervalsOf(port) ?? []).map(
      ({ first, last }) => `${portsText({ port: first, lastPort: last })}/${port.spec.protocol}`,
    ),
  );
  return [...service.ports.map(portSpecText), ...intervals];
}

function unallocated({ to }: Connection, { nodeContext }: ExplainInput): Reason | undefined {
  const serviceCIDRs = contextOf(nodeContext, familyOf(to))?.serviceCIDRs ?? [];
  const cidr = serviceCIDRs.find((one) => cidrContains(one, to));
  if (cidr === undefined) return undefined;
  return {
    cause: "unallocated-address",
    message: `no Service has the address ${to}, which is in ServiceCIDR ${cidr}`,
    action: "the Service may have been deleted and created again; look up its current address",
    commands: ["kubectl get services -A"],
  };
}

function otherNodePortAddress(connection: Connection, input: ExplainInput): Reason | undefined {
  const { to, protocol } = connection;
  const match = nodePortAt(connection, input);
  const nodePorts = contextOf(input.nodeContext, familyOf(to))?.nodePorts;
  if (match === undefined || nodePorts === undefined) return undefined;
  const nodePort = `NodePort ${connection.port}/${protocol} of ${portText(match.port)}`;
  if (nodePorts.kind === "addresses" && nodePorts.addresses.length === 0) {
    return {
      cause: "node-port-address",
      message: `${nodePort} is served at no address of this node`,
      action: "compare the addresses of its Node object with --nodeport-addresses",
    };
  }
  const served =
    nodePorts.kind === "all" ? "every address of the node except loopback" : listText(nodePorts.addresses);
  return {
    cause: "node-port-address",
    message: `${nodePort} answers at ${served} here, not at ${to}${isLocal(input.host, to) ? "" : ", which is not an address of this node"}`,
    action: nodePortAction(to, input),
  };
}

/** Only addresses of this node can serve its NodePorts; other nodes serve theirs. */
function nodePortAction(to: string, { host }: ExplainInput): string {
  if (isLoopback(to)) {
    return "connect to the node's own address, or add localhost to --nodeport-addresses (TCP to 127.0.0.1 and ::1)";
  }
  return isLocal(host, to)
    ? "connect there, or add the address to --nodeport-addresses"
    : "run explain on the node that has the address, or name that node with --hostname-override";
}

function loopback({ to }: Connection): Reason | undefined {
  if (!isLoopback(to)) return undefined;
  return {
    cause: "loopback",
    message: `${to} is a loopback address, which no Service can have`,
    action: "connect to the Service's cluster IP, or to the node's address for a NodePort",
  };
}

/** Maximum number of Services to name for a shared endpoint. */
const MOST_SERVICES = 3;

function notAService(connection: Connection, input: ExplainInput): Reason {
  const { to } = connection;
  const names = [...new Set(endpointsAt(to, input).map(({ service }) => service))];
  const services = names.length === 1 ? `Service ${names[0]}` : `Services ${listText(names, MOST_SERVICES)}`;
  const known = names.length === 0 ? "" : `; it is an endpoint of ${services}, reached directly`;
  return {
    cause: "not-a-service",
    message: `${destinationText(connection)} belongs to no Service${known}`,
    action: isEcho(connection.protocol)
      ? `the machine that has it answers pings, if any does; to explain a connection, ${withPort(to, input)}`
      : "if it fails, check the process that listens there, the routes and the NetworkPolicies",
  };
}

/**
 * How to ask for a port of an address. If an IPv6 address that ends with a port is one of a Service, brackets
 * were forgotten.
 */
function withPort(address: string, input: ExplainInput): string {
  if (familyOf(address) === "ip") return `add its port: ${address}:PORT`;
  const [, host = "", port] = /^(.*):(\d+)$/.exec(address) ?? [];
  const meant = canonicalAddress(host);
  return meant === undefined || servicesAt(meant, input).length === 0
    ? `add its port: [${address}]:PORT`
    : `port ${port} of ${meant} is written [${meant}]:${port}`;
}
