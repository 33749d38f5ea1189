import { counted, listText } from "../../base/text.ts";
import { compareAddresses, familyOf, isLinkLocal, isLoopback } from "../../model/ip.ts";
import { addressesOf, hasFamily, type Service } from "../../model/service.ts";
import type { FamilyContext, NodeContext } from "../../ruleset/node-context.ts";
import { type Finding, type HostFinding, named, ok, warning } from "./finding.ts";
import type { HostFacts } from "./host-facts.ts";
import type { KubeProxyMode } from "./other-proxy-check.ts";
import { ROUTE_LOCALNET } from "./settings-check.ts";

/** Facts for the addresses of NodePorts. */
export interface NodePortFacts extends Pick<HostFacts, "settings"> {
  /** All addresses of this host, canonical; undefined if they cannot be read. */
  readonly hostAddresses: readonly string[] | undefined;
  readonly services: readonly Service[];
  readonly nodeContext: NodeContext;
}

/**
 * Reports the addresses on which NodePorts will no longer answer: iptables and ipvs mode serve more addresses
 * by default.
 */
export function nodePortChanges(modes: readonly KubeProxyMode[], facts: NodePortFacts): HostFinding[] {
  const { settings, services, nodeContext } = facts;
  const ported = services.filter(({ ports }) => ports.some(({ nodePort }) => nodePort !== 0));
  if (ported.length === 0 || !modes.some((mode) => mode !== "nftables")) return [];
  const ofIPv4 = ported.filter((service) => hasFamily(service, "ip"));
  const hadLoopback = modes.includes("iptables") && settings.get(ROUTE_LOCALNET) === 1 && ofIPv4.length > 0;
  return [
    ...named("migration-nodeport-addresses", [addressChange(ported, facts)]),
    ...named("migration-nodeport-loopback", hadLoopback ? [loopbackChange(ofIPv4, nodeContext)] : []),
  ];
}

function addressChange(ported: readonly Service[], facts: NodePortFacts): Finding {
  const { hostAddresses } = facts;
  if (hostAddresses === undefined)
    return warning(`unknown: the addresses of this host on which ${namesOf(ported)} will not answer`);
  const lost = lostAddresses(ported, facts, hostAddresses);
  if (lost.length === 0) return ok(`${namesOf(ported)} will answer on the same addresses as before`);
  return warning(
    `${namesOf(ported)} will not answer on ${listText(lost)}`,
    "kube-proxy's iptables and ipvs modes serve all addresses of a node, unless its nodePortAddresses were set",
    "set nodePortAddresses (--nodeport-addresses) to all, or to the CIDRs of the addresses that clients use",
  );
}

function loopbackChange(ported: readonly Service[], nodeContext: NodeContext): Finding {
  if (!nodeContext.some(({ family, loopbackNodePorts }) => family === "ip" && loopbackNodePorts))
    return warning(
      `${namesOf(ported)} will not answer on 127.0.0.1`,
      "kube-proxy's iptables mode serves them there (route_localnet is 1)",
      "if a program of the node needs it, such as a container runtime with a local registry, add localhost to nodePortAddresses (TCP)",
    );
  const withoutTcp = ported.filter(({ ports }) =>
    ports.some(({ nodePort, protocol }) => nodePort !== 0 && protocol !== "tcp"),
  );
  if (withoutTcp.length === 0) return ok(`${namesOf(ported)} answer on 127.0.0.1`);
  const found = `UDP and SCTP ${namesOf(withoutTcp)} will not answer on 127.0.0.1`;
  return warning(found, "localhost in nodePortAddresses only serves TCP");
}

function namesOf(ported: readonly Service[]): string {
  return `NodePorts of ${counted(ported.length, "Service")} (${listText(ported.map(({ name }) => name))})`;
}

/** In ipvs mode, the addresses of Services are on the interface kube-ipvs0, so they are excluded. */
function lostAddresses(
  ported: readonly Service[],
  { services, nodeContext }: NodePortFacts,
  hostAddresses: readonly string[],
): string[] {
  const ofServices = new Set(services.flatMap(addressesOf));
  return nodeContext
    .filter(({ family }) => ported.some((service) => hasFamily(service, family)))
    .flatMap((context) => unserved(context, hostAddresses))
    .filter((address) => !ofServices.has(address))
    .sort(compareAddresses);
}

/** Returns the host's addresses of a family on which kube-proxy serves NodePorts and nft-proxy does not. */
function unserved({ family, nodePorts }: FamilyContext, hostAddresses: readonly string[]): string[] {
  if (nodePorts.kind === "all") return [];
  return hostAddresses.filter(
    (address) =>
      familyOf(address) === family &&
      !isLoopback(address) &&
      !isLinkLocal(address) &&
      !nodePorts.addresses.includes(address),
  );
}
