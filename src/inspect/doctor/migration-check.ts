import { counted, listText } from "../../base/text.ts";
import { hasIntervals, INTERVALS } from "../../features/frontends.ts";
import { FEATURES } from "../../features/registry.ts";
import type { Service } from "../../model/service.ts";
import type { Conflict } from "../../ruleset/family-state.ts";
import { frontendText } from "../../ruleset/keys.ts";
import { type FeatureCheck, type HostFinding, judge, type Row } from "./finding.ts";
import { type NodePortFacts, nodePortChanges } from "./migration-nodeports.ts";
import { type KubeProxyMode, type ProxyTraces, tracedModes } from "./other-proxy-check.ts";
import { ARP_SETTINGS, settingName } from "./settings-check.ts";

/** The Services of a cluster, and their processing on this node. */
export interface MigratingServices extends Pick<NodePortFacts, "services" | "nodeContext"> {
  readonly conflicts: readonly Conflict[];
}

/** Facts for a migration from kube-proxy. */
export interface MigrationFacts extends ProxyTraces, Pick<NodePortFacts, "settings" | "hostAddresses"> {
  /** The mode that a kube-proxy on this host reports; undefined for nftables, which its tables show. */
  readonly answeredMode: "iptables" | "ipvs" | undefined;
  /** The Services, or why they are unavailable. */
  readonly objects: MigratingServices | { readonly problem: string };
}

/** Reports what changes for this cluster's clients when nft-proxy replaces kube-proxy on this node. */
export function judgeMigration(facts: MigrationFacts): HostFinding[] {
  const { objects, answeredMode } = facts;
  const modes = [
    ...new Set([...tracedModes(facts), ...(answeredMode === undefined ? [] : [answeredMode])]),
  ].sort();
  const general = [
    ...judge(MODE_ROWS, modes),
    ...(modes.includes("ipvs") ? [...judge(IPVS_ROWS, facts), ...ipvsFindings(facts)] : []),
    ...Object.keys(PROGRAMS).flatMap((table) => judge(FORWARD_ROWS, { table, facts })),
  ];
  if ("problem" in objects) return [...general, ...judge(UNKNOWN_ROWS, objects)];
  return [
    ...general,
    ...nodePortChanges(modes, { ...facts, ...objects }),
    ...judge(
      AFFINITY_ROWS,
      objects.services.filter(({ affinitySeconds }) => affinitySeconds > 0),
    ),
    ...judge(RANGE_ROWS, rangedServices(objects)),
    ...objects.conflicts.flatMap((conflict) => judge(CONFLICT_ROWS, conflict)),
  ];
}

const MODE_ROWS: readonly Row<readonly KubeProxyMode[]>[] = [
  {
    check: "migration",
    level: "ok",
    when: (modes) => modes.length > 0,
    found: (modes) => `kube-proxy has rules on this host (mode ${listText(modes)})`,
  },
  {
    check: "migration",
    level: "warning",
    found: "unknown: there are no rules of kube-proxy on this host",
    means: "changes that depend on kube-proxy's mode are not listed",
    action: "run this command as root on a node with kube-proxy",
  },
];

const UNKNOWN_ROWS: readonly Row<{ readonly problem: string }>[] = [
  {
    check: "migration",
    level: "warning",
    found: ({ problem }) => `unknown: the cluster's Services (${problem})`,
    means: "changes of NodePorts and session affinity are not listed",
    action: "set --kubeconfig, or read the objects from files with --from",
  },
];

const AFFINITY_ROWS: readonly Row<readonly Service[]>[] = [
  {
    check: "migration-affinity",
    level: "warning",
    when: (sticky) => sticky.length > 0,
    found: (sticky) =>
      `${counted(sticky.length, "Service")} with session affinity (${listText(sticky.map(({ name }) => name))})`,
    means: "each client is balanced once more and may get another endpoint",
    action: "migrate at a quiet time if endpoints keep sessions",
  },
];

interface RangedServices {
  readonly ranged: readonly Service[];
  readonly areVirtual: boolean;
}

const rangedText = ({ ranged }: RangedServices) =>
  `${counted(ranged.length, "Service")} with port ranges (${listText(ranged.map(({ name }) => name))})`;

const RANGE_ROWS: readonly Row<RangedServices>[] = [
  {
    check: "migration-port-ranges",
    level: "warning",
    when: ({ ranged }) => ranged.length > 0,
    found: rangedText,
    means: ({ areVirtual }) =>
      `only nodes with nft-proxy serve them${areVirtual ? ", but not at addresses of their own" : ""}; kube-proxy does not`,
    action: "send connections to these ports only to migrated nodes",
  },
];

function rangedServices({ services, nodeContext }: MigratingServices): RangedServices {
  const [context] = nodeContext;
  const areVirtual = context === undefined || INTERVALS?.areVirtual(context) === true;
  return { ranged: services.filter(hasIntervals), areVirtual };
}

const CONFLICT_ROWS: readonly Row<Conflict>[] = [
  {
    check: "migration-conflict",
    level: "warning",
    found: ({ frontend, winner, losers }) =>
      `${frontendText(frontend)} is claimed by ${listText([winner, ...losers].map(({ service }) => service.name))}`,
    means: ({ winner }) => `${winner.service.name}, the oldest, will get it; kube-proxy chooses arbitrarily`,
    action: "remove the address and port from the others",
  },
];

/** Tables of iptables and ip6tables with the chain FORWARD, and the program that changes each. */
const PROGRAMS: Readonly<Record<string, string>> = { "ip filter": "iptables", "ip6 filter": "ip6tables" };

/**
 * Connections that no rule accepts without kube-proxy: its iptables and ipvs modes accept masqueraded and
 * established connections in a chain of FORWARD, whose policy Docker and ufw set to drop.
 */
const FORWARD_ROWS: readonly Row<{ readonly table: string; readonly facts: MigrationFacts }>[] = [
  {
    check: "migration-forward",
    level: "warning",
    when: ({ table, facts: { chains = [] } }) => {
      const ofTable = chains.filter((chain) => chain.table === table);
      const drops = ofTable.some(({ base }) => base?.hook === "forward" && base.policy === "drop");
      return drops && ofTable.some(({ name }) => name === "KUBE-FORWARD");
    },
    found: ({ table }) =>
      `the hook forward of table ${table} drops by default, and kube-proxy's chain KUBE-FORWARD accepts Services' connections there`,
    means:
      "once kube-proxy's rules are gone, these are dropped unless other rules, such as the CNI plugin's, accept them",
    action: ({ table }) =>
      `make it accept them: ${PROGRAMS[table]} -A FORWARD -m conntrack --ctstate DNAT,RELATED,ESTABLISHED -j ACCEPT`,
  },
];

/** Changes when ipvs mode ends, which has the addresses of Services on an interface of the node. */
const IPVS_ROWS: readonly Row<MigrationFacts>[] = [
  {
    check: "migration-cluster-ips",
    level: "ok",
    found: "cluster IPs will no longer be addresses of this node",
    means: "ports that no Service has will be refused; with ipvs they reach programs of this host",
  },
  {
    check: "migration-strict-arp",
    level: "ok",
    when: (facts) => arpSettings(facts).length > 0,
    found: (facts) =>
      listText(arpSettings(facts).map((path) => `${settingName(path)} is ${facts.settings.get(path)}`)),
    means:
      "strictARP, which load balancers such as MetalLB need with ipvs, is not needed: no interface has the addresses of Services",
    action: "set them to 0 once kube-proxy is gone, unless other software needs them",
  },
];

/** What features have found out. */
function ipvsFindings({ ipvsSchedulers: schedulers, objects }: MigrationFacts): HostFinding[] {
  const context = "problem" in objects ? undefined : objects.nodeContext[0];
  return FEATURES.flatMap(({ ipvs }): HostFinding[] => {
    if (ipvs === undefined) return [];
    const check = ipvs.check as FeatureCheck;
    return ipvs.findings({ context, schedulers }).map((finding) => ({ check, ...finding }));
  });
}

function arpSettings({ settings }: MigrationFacts): string[] {
  return ARP_SETTINGS.filter((path) => (settings.get(path) ?? 0) !== 0);
}
