import { counted, listText } from "../../base/text.ts";
import { compareAddresses, familyOf, isLinkLocal, isLoopback } from "../../model/ip.ts";
import { addressesOf, hasFamily, type Service } from "../../model/service.ts";
import type { FamilyContext, NodeContext } from "../../ruleset/node-context.ts";
import { type HostFinding, judge, type Row } from "./finding.ts";
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
  const { settings, hostAddresses, services, nodeContext } = facts;
  const ported = services.filter(({ ports }) => ports.some(({ nodePort }) => nodePort !== 0));
  if (ported.length === 0 || !modes.some((mode) => mode !== "nftables")) return [];
  const ofIPv4 = ported.filter((service) => hasFamily(service, "ip"));
  const hadLoopback = modes.includes("iptables") && settings.get(ROUTE_LOCALNET) === 1 && ofIPv4.length > 0;
  const lost = hostAddresses === undefined ? undefined : lostAddresses(ported, facts, hostAddresses);
  return [
    ...judge(ADDRESS_ROWS, { ported, lost }),
    ...(hadLoopback ? judge(LOOPBACK_ROWS, { ported: ofIPv4, nodeContext }) : []),
  ];
}

/**
 * Addresses of the host on which NodePorts will no longer answer; undefined if the host's addresses are
 * unknown.
 */
interface AddressChange {
  readonly ported: readonly Service[];
  readonly lost: readonly string[] | undefined;
}

const ADDRESS_ROWS: readonly Row<AddressChange>[] = [
  {
    check: "migration-nodeport-addresses",
    level: "warning",
    when: ({ lost }) => lost === undefined,
    found: ({ ported }) => `unknown: the addresses of this host on which ${namesOf(ported)} will not answer`,
  },
  {
    check: "migration-nodeport-addresses",
    level: "ok",
    when: ({ lost }) => lost?.length === 0,
    found: ({ ported }) => `${namesOf(ported)} will answer on the same addresses as before`,
  },
  {
    check: "migration-nodeport-addresses",
    level: "warning",
    found: ({ ported, lost = [] }) => `${namesOf(ported)} will not answer on ${listText(lost)}`,
    means:
      "kube-proxy's iptables and ipvs modes serve all addresses of a node, unless its nodePortAddresses were set",
    action:
      "set nodePortAddresses (--nodeport-addresses) to all, or to the CIDRs of the addresses that clients use",
  },
];

const LOOPBACK_ROWS: readonly Row<Pick<NodePortFacts, "nodeContext"> & Pick<AddressChange, "ported">>[] = [
  {
    check: "migration-nodeport-loopback",
    level: "warning",
    when: ({ nodeContext }) =>
      !nodeContext.some(({ family, loopbackNodePorts }) => family === "ip" && loopbackNodePorts),
    found: ({ ported }) => `${namesOf(ported)} will not answer on 127.0.0.1`,
    means: "kube-proxy's iptables mode serves them there (route_localnet is 1)",
    action:
      "if a program of the node needs it, such as a container runtime with a local registry, add localhost to nodePortAddresses (TCP)",
  },
  {
    check: "migration-nodeport-loopback",
    level: "ok",
    when: ({ ported }) => withoutTcp(ported).length === 0,
    found: ({ ported }) => `${namesOf(ported)} answer on 127.0.0.1`,
  },
  {
    check: "migration-nodeport-loopback",
    level: "warning",
    found: ({ ported }) => `UDP and SCTP ${namesOf(withoutTcp(ported))} will not answer on 127.0.0.1`,
    means: "localhost in nodePortAddresses only serves TCP",
  },
];

function namesOf(ported: readonly Service[]): string {
  return `NodePorts of ${counted(ported.length, "Service")} (${listText(ported.map(({ name }) => name))})`;
}

/** Returns the Services with NodePorts of other protocols than TCP. */
function withoutTcp(ported: readonly Service[]): Service[] {
  return ported.filter(({ ports }) =>
    ports.some(({ nodePort, protocol }) => nodePort !== 0 && protocol !== "tcp"),
  );
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
