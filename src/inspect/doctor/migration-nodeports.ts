import type { Family } from "../../base/family.ts";
import { counted, listText } from "../../base/text.ts";
import { compareAddresses, familyOf, isLinkLocal, isLoopback } from "../../model/ip.ts";
import type { Service } from "../../model/service.ts";
import type { FamilyContext, NodeContext } from "../../ruleset/node-context.ts";
import { diagnostic, type HostDiagnostic } from "./diagnostic.ts";
import type { MigratingServices, MigrationFacts } from "./migration-facts.ts";
import type { KubeProxyMode } from "./other-proxy-check.ts";
import { ROUTE_LOCALNET } from "./settings-check.ts";

/** Where NodePorts will not answer any more: iptables and ipvs mode serve more addresses by default. */
export function nodePortChanges(
  modes: readonly KubeProxyMode[],
  { settings, hostAddresses }: MigrationFacts,
  objects: MigratingServices,
): HostDiagnostic[] {
  const ported = objects.services.filter(({ ports }) => ports.some(({ nodePort }) => nodePort !== 0));
  if (ported.length === 0 || !modes.some((mode) => mode !== "nftables")) return [];
  const ofIPv4 = ported.filter((service) => hasFamily(service, "ip"));
  const hadLoopback = modes.includes("iptables") && settings.get(ROUTE_LOCALNET) === 1 && ofIPv4.length > 0;
  return [
    addressChange(ported, objects, hostAddresses),
    ...(hadLoopback ? [loopbackChange(ofIPv4, objects.nodeContext)] : []),
  ];
}

function hasFamily({ clusterIPs }: Service, family: Family): boolean {
  return clusterIPs[family] !== "";
}

function namesOf(ported: readonly Service[]): string {
  return `NodePorts of ${counted(ported.length, "Service")} (${listText(ported.map(({ name }) => name))})`;
}

function addressChange(
  ported: readonly Service[],
  { services, nodeContext }: MigratingServices,
  hostAddresses: readonly string[] | undefined,
): HostDiagnostic {
  const check = "migration-nodeport-addresses";
  const names = namesOf(ported);
  if (hostAddresses === undefined) {
    return diagnostic(check, "warning", `unknown: this host's addresses on which ${names} will not answer`);
  }
  const ofServices = new Set(services.flatMap(addressesOf));
  const lost = nodeContext
    .filter(({ family }) => ported.some((service) => hasFamily(service, family)))
    .flatMap((context) => unserved(context, hostAddresses))
    .filter((address) => !ofServices.has(address));
  if (lost.length === 0) return diagnostic(check, "ok", `${names} answer on the addresses on which they answered`);
  return diagnostic(
    check,
    "warning",
    `${names} will not answer on ${listText(lost.toSorted(compareAddresses))}`,
    "kube-proxy's iptables and ipvs modes serve all addresses of a node, unless its nodePortAddresses were set",
    "set nodePortAddresses (--nodeport-addresses) to all, or to the CIDRs of the addresses that clients use",
  );
}

function loopbackChange(ported: readonly Service[], nodeContext: NodeContext): HostDiagnostic {
  const names = namesOf(ported);
  const check = "migration-nodeport-loopback";
  const isServed = nodeContext.some(({ family, loopbackNodePorts }) => family === "ip" && loopbackNodePorts);
  if (!isServed) {
    return diagnostic(
      check,
      "warning",
      `${names} will not answer on 127.0.0.1`,
      "kube-proxy's iptables mode serves them there (route_localnet is 1)",
      "if a program of the node uses that, such as a container runtime a registry: add localhost to nodePortAddresses (TCP)",
    );
  }
  const others = ported.filter(({ ports }) =>
    ports.some(({ nodePort, protocol }) => nodePort !== 0 && protocol !== "tcp"),
  );
  if (others.length === 0) return diagnostic(check, "ok", `${names} answer on 127.0.0.1`);
  const found = `UDP and SCTP NodePorts of ${counted(others.length, "Service")} (${listText(others.map(({ name }) => name))}) will not answer on 127.0.0.1`;
  return diagnostic(check, "warning", found, "localhost in nodePortAddresses serves TCP alone");
}

/** The host's addresses of a family on which kube-proxy serves NodePorts and nft-proxy does not. */
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

/** In ipvs mode, these are addresses of the interface kube-ipvs0. */
function addressesOf({ clusterIPs, externalIPs, loadBalancerIPs }: Service): string[] {
  return [clusterIPs, externalIPs, loadBalancerIPs].flatMap(({ ip, ip6 }) => [ip, ip6].flat());
}
