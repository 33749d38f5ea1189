import type { ByFamily } from "../base/family.ts";
import type { ConntrackSettings } from "../model/conntrack-settings.ts";
import type { Scheduler } from "../model/scheduler.ts";
import type { ServiceCounters } from "../model/service.ts";

/** An address to listen on. IPv6 addresses are without brackets. */
export interface ListenAddress {
  /** Canonical; `0.0.0.0` or `::` for all interfaces. */
  readonly address: string;
  /** 1..65535 */
  readonly port: number;
}

/** How traffic of this node's pods is detected: kube-proxy's `--detect-local-mode`. */
export type DetectLocal =
  | { readonly kind: "cluster-cidr" }
  | { readonly kind: "node-cidr" }
  | { readonly kind: "bridge"; readonly interface: string }
  | { readonly kind: "interface-prefix"; readonly prefix: string };

/** The node addresses that serve NodePorts: all that one of the three selects. */
export interface NodePortSelection {
  /** The node's primary address of each family. */
  readonly primary: boolean;
  /** The loopback address of a family (127.0.0.1, ::1), for TCP only: through userspace. */
  readonly localhost: ByFamily<boolean>;
  /** The addresses in these CIDRs, but for loopback ones. */
  readonly cidrs: ByFamily<readonly string[]>;
}

/** The location of the API server. */
export interface ClientOptions {
  /** Path of a kubeconfig file; "" for the Pod's service account. */
  readonly kubeconfig: string;
  /** URL of the API server that overrides the kubeconfig's; "" for none. */
  readonly master: string;
}

/** The reaction to a change of the configuration file: apply what is safe, or exit in order to be restarted. */
export type ConfigChange = "reload" | "exit";

/**
 * The validated options of nft-proxy. Durations are in milliseconds (fractions possible), addresses and CIDRs canonical.
 * Names and meanings are those of KubeProxyConfiguration v1alpha1 where it has such a field.
 */
export interface ProxyOptions {
  /** The name of our Node, lower case; "" for the host's own name. */
  readonly hostnameOverride: string;
  /** The node's primary address, overriding the Node object's; `0.0.0.0` or `::` for no override. Not a listen address. */
  readonly bindAddress: string;
  /** Of the health checks; undefined when they are switched off. */
  readonly healthzBindAddress: ListenAddress | undefined;
  /** Of metrics and the status page; undefined when they are switched off. */
  readonly metricsBindAddress: ListenAddress | undefined;
  /** Exit when a port cannot be bound. */
  readonly bindAddressHardFail: boolean;
  readonly client: ClientOptions;
  /** At most one of each family. */
  readonly clusterCIDRs: ByFamily<readonly string[]>;
  readonly detectLocal: DetectLocal;
  /** Serve `spec.externalIPs` of Services; false for the feature gate AllowServiceExternalIPs=false. */
  readonly serviceExternalIPs: boolean;
  readonly nodePortAddresses: NodePortSelection;
  /** Masquerade all traffic to cluster IPs. */
  readonly masqueradeAll: boolean;
  /** The bit of the packet mark that asks for masquerading, 0..31. */
  readonly masqueradeBit: number;
  /** Time between background checks and clean-ups. */
  readonly syncPeriodMs: number;
  /** Minimum time between the starts of two syncs; 0 for a pause that follows the length of the last sync. */
  readonly minSyncPeriodMs: number;
  /** Time between two full comparisons with the kernel. */
  readonly fullResyncPeriodMs: number;
  readonly conntrack: ConntrackSettings;
  /** -1000..1000 */
  readonly oomScoreAdj: number;
  readonly logFormat: "text" | "json";
  /** klog's `-v`; see {@link logLevel}. */
  readonly logVerbosity: number;
  readonly serviceCounters: ServiceCounters;
  /** Keep NodePorts in `net.ipv4.ip_local_reserved_ports`. */
  readonly reserveNodePorts: boolean;
  /** The scheduler of Services without the annotation. */
  readonly scheduler: Scheduler;
  /** The maximum of clients that session affinity remembers, for each family. */
  readonly affinityMapSize: number;
  /** The most refusals, by client and frontend, that the kernel remembers, for each family; 0 for none. */
  readonly refusalLogSize: number;
  /** Reset TCP connections to endpoints that left every EndpointSlice. */
  readonly resetVanished: boolean;
  readonly configChange: ConfigChange;
  /** The Unix socket on which the daemon answers the other commands, a path; "" for none. */
  readonly daemonSocket: string;
  /** The nft program: a path, or a name to look for in PATH. */
  readonly nftPath: string;
}

/** Returns the log level of klog's `-v`: Kubernetes calls 4 and above debug verbosity. */
export function logLevel(verbosity: number): "info" | "debug" {
  return verbosity >= 4 ? "debug" : "info";
}
