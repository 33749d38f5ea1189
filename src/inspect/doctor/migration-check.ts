import { counted, listText } from "../../base/text.ts";
import { hasIntervals, INTERVALS } from "../../features/frontends.ts";
import { FEATURES } from "../../features/registry.ts";
import { compareAddresses, familyOf, isLinkLocal, isLoopback } from "../../model/ip.ts";
import { addressesOf, hasFamily, type Service } from "../../model/service.ts";
import type { Conflict } from "../../ruleset/family-state.ts";
import { frontendText } from "../../ruleset/keys.ts";
import type { FamilyContext, NodeContext } from "../../ruleset/node-context.ts";
import { type FeatureCheck, type Finding, type HostFinding, named, ok, warning } from "./finding.ts";
import type { HostFacts } from "./host-facts.ts";
import { type KubeProxyMode, type ProxyTraces, tracedModes } from "./other-proxy-check.ts";
import { ARP_SETTINGS, ROUTE_LOCALNET, settingName } from "./settings-check.ts";

/** The Services of a cluster, and their processing on this node. */
export interface MigratingServices {
  readonly services: readonly Service[];
  readonly nodeContext: NodeContext;
  readonly conflicts: readonly Conflict[];
}

/** Facts for a migration from kube-proxy. */
export interface MigrationFacts extends ProxyTraces, Pick<HostFacts, "settings"> {
  /** All addresses of this host, canonical; undefined if they cannot be read. */
  readonly hostAddresses: readonly string[] | undefined;
  /** The mode that a kube-proxy on this host reports; undefined for nftables, which its tables show. */
  readonly answeredMode: "iptables" | "ipvs" | undefined;
  /** The Services, or why they are unavailable. */
  readonly objects: MigratingServices | { readonly problem: string };
}

/** Reports what changes for this cluster's clients when nft-proxy replaces kube-proxy on this node. */
export function judgeMigration(facts: MigrationFacts): HostFinding[] {
  const { objects, answeredMode } = facts;
  const answered = answeredMode === undefined ? [] : [answeredMode];
  const modes = [...new Set([...tracedModes(facts), ...answered])].sort();
  return [
    ...named("migration", [judgeModes(modes)]),
    ...(modes.includes("ipvs") ? ipvsFindings(facts) : []),
    ...Object.entries(PROGRAMS).flatMap(([table, program]) =>
      named("migration-forward", judgeForward(table, program, facts)),
    ),
    ...("problem" in objects
      ? named("migration", [unknownServices(objects.problem)])
      : [...nodePortChanges(modes, facts, objects), ...serviceChanges(objects)]),
  ];
}

function unknownServices(problem: string): Finding {
  return warning(
    `unknown: the cluster's Services (${problem})`,
    "changes of NodePorts and session affinity are not listed",
    "set --kubeconfig, or read the objects from files with --from",
  );
}

function judgeModes(modes: readonly KubeProxyMode[]): Finding {
  if (modes.length > 0) return ok(`kube-proxy has rules on this host (mode ${listText(modes)})`);
  return warning(
    "unknown: there are no rules of kube-proxy on this host",
    "changes that depend on kube-proxy's mode are not listed",
    "run this command as root on a node with kube-proxy",
  );
}

function serviceChanges({ services, nodeContext, conflicts }: MigratingServices): HostFinding[] {
  const sticky = services.filter(({ affinitySeconds }) => affinitySeconds > 0);
  const ranged = services.filter(hasIntervals);
  return [
    ...named("migration-affinity", sticky.length === 0 ? [] : [affinityChange(sticky)]),
    ...named("migration-port-ranges", ranged.length === 0 ? [] : [rangeChange(ranged, nodeContext)]),
    ...named("migration-conflict", conflicts.map(conflictChange)),
  ];
}

function affinityChange(sticky: readonly Service[]): Finding {
  return warning(
    countedNames(sticky, "session affinity"),
    "each client is balanced once more and may get another endpoint",
    "migrate at a quiet time if endpoints keep sessions",
  );
}

function rangeChange(ranged: readonly Service[], [context]: NodeContext): Finding {
  const areVirtual = context === undefined || INTERVALS?.areVirtual(context) === true;
  return warning(
    countedNames(ranged, "port ranges"),
    `only nodes with nft-proxy serve them${areVirtual ? ", but not at addresses of their own" : ""}; kube-proxy does not`,
    "send connections to these ports only to migrated nodes",
  );
}

function conflictChange({ frontend, winner, losers }: Conflict): Finding {
  const names = [winner, ...losers].map(({ service }) => service.name);
  return warning(
    `${frontendText(frontend)} is claimed by ${listText(names)}`,
    `${winner.service.name}, the oldest, will get it; kube-proxy chooses arbitrarily`,
    "remove the address and port from the others",
  );
}

/** `2 Services with port ranges (shop/cart and shop/web)` */
function countedNames(services: readonly Service[], what: string): string {
  return `${counted(services.length, "Service")} with ${what} (${listText(services.map(({ name }) => name))})`;
}

/** Tables of iptables and ip6tables with the chain FORWARD, and the program that changes each. */
const PROGRAMS: Readonly<Record<string, string>> = { "ip filter": "iptables", "ip6 filter": "ip6tables" };

/**
 * Reports connections that no rule accepts without kube-proxy: its iptables and ipvs modes accept masqueraded
 * and established connections in a chain of FORWARD, whose policy Docker and ufw set to drop.
 */
function judgeForward(table: string, program: string, { chains = [] }: MigrationFacts): Finding[] {
  const ofTable = chains.filter((chain) => chain.table === table);
  const drops = ofTable.some(({ base }) => base?.hook === "forward" && base.policy === "drop");
  if (!drops || !ofTable.some(({ name }) => name === "KUBE-FORWARD")) return [];
  return [
    warning(
      `the hook forward of table ${table} drops by default, and kube-proxy's chain KUBE-FORWARD accepts Services' connections there`,
      "once kube-proxy's rules are gone, these are dropped unless other rules, such as the CNI plugin's, accept them",
      `make it accept them: ${program} -A FORWARD -m conntrack --ctstate DNAT,RELATED,ESTABLISHED -j ACCEPT`,
    ),
  ];
}

/**
 * Reports changes when ipvs mode ends, which has the addresses of Services on an interface of the node, with
 * what features have found out.
 */
function ipvsFindings({ settings, ipvsSchedulers, objects }: MigrationFacts): HostFinding[] {
  const arp = ARP_SETTINGS.filter((path) => (settings.get(path) ?? 0) !== 0);
  const arpChange = () =>
    ok(
      listText(arp.map((path) => `${settingName(path)} is ${settings.get(path)}`)),
      "strictARP, which load balancers such as MetalLB need with ipvs, is not needed: no interface has the addresses of Services",
      "set them to 0 once kube-proxy is gone, unless other software needs them",
    );
  const context = "problem" in objects ? undefined : objects.nodeContext[0];
  const of = { context, schedulers: ipvsSchedulers };
  return [
    ...named("migration-cluster-ips", [CLUSTER_IPS_CHANGE]),
    ...named("migration-strict-arp", arp.length === 0 ? [] : [arpChange()]),
    ...FEATURES.flatMap(({ ipvs }) => (ipvs ? named(ipvs.check as FeatureCheck, ipvs.findings(of)) : [])),
  ];
}

const CLUSTER_IPS_CHANGE = ok(
  "cluster IPs will no longer be addresses of this node",
  "ports that no Service has will be refused; with ipvs they reach programs of this host",
);

/**
 * Reports the addresses on which NodePorts will no longer answer: iptables and ipvs mode serve more addresses
 * by default.
 */
function nodePortChanges(
  modes: readonly KubeProxyMode[],
  { settings, hostAddresses }: MigrationFacts,
  { services, nodeContext }: MigratingServices,
): HostFinding[] {
  const ported = services.filter(({ ports }) => ports.some(({ nodePort }) => nodePort !== 0));
  if (ported.length === 0 || !modes.some((mode) => mode !== "nftables")) return [];
  const ofIPv4 = ported.filter((service) => hasFamily(service, "ip"));
  const hadLoopback = modes.includes("iptables") && settings.get(ROUTE_LOCALNET) === 1 && ofIPv4.length > 0;
  // In ipvs mode, the addresses of Services are on the interface kube-ipvs0.
  const ofServices = new Set(services.flatMap(addressesOf));
  const lost = nodeContext
    .filter(({ family }) => ported.some((service) => hasFamily(service, family)))
    .flatMap((context) => unserved(context, hostAddresses ?? []))
    .filter((address) => !ofServices.has(address))
    .sort(compareAddresses);
  return [
    ...named("migration-nodeport-addresses", [addressChange(ported, hostAddresses && lost)]),
    ...named("migration-nodeport-loopback", hadLoopback ? [loopbackChange(ofIPv4, nodeContext)] : []),
  ];
}

function addressChange(ported: readonly Service[], lost: readonly string[] | undefined): Finding {
  if (lost === undefined)
    return warning(`unknown: the addresses of this host on which ${namesOf(ported)} will not answer`);
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
