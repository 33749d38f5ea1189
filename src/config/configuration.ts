/**
 * A complete configuration: the fields of KubeProxyConfiguration v1alpha1 that have an effect here, and the section
 * `nftProxy` that kube-proxy does not have. Durations are texts such as `1m30s`. The valid values are defined in
 * schemas/kubeproxyconfiguration.schema.json.
 */
export interface KubeProxyConfiguration {
  readonly apiVersion: "kubeproxy.config.k8s.io/v1alpha1";
  readonly kind: "KubeProxyConfiguration";
  readonly mode: string;
  readonly hostnameOverride: string;
  readonly bindAddress: string;
  readonly healthzBindAddress: string;
  readonly metricsBindAddress: string;
  readonly bindAddressHardFail: boolean;
  readonly clusterCIDR: string;
  /** Absent unless a gate differs from its default: kube-proxy rejects gates that its version does not have. */
  readonly featureGates?: { readonly AllowServiceExternalIPs: boolean };
  readonly detectLocalMode: string;
  readonly detectLocal: { readonly bridgeInterface: string; readonly interfaceNamePrefix: string };
  readonly nodePortAddresses: readonly string[];
  readonly clientConnection: { readonly kubeconfig: string };
  readonly nftables: {
    readonly masqueradeAll: boolean;
    readonly masqueradeBit: number;
    readonly minSyncPeriod: string;
    readonly syncPeriod: string;
  };
  readonly conntrack: {
    readonly maxPerCore: number;
    readonly min: number;
    readonly tcpEstablishedTimeout: string;
    readonly tcpCloseWaitTimeout: string;
    readonly tcpBeLiberal: boolean;
    readonly udpTimeout: string;
    readonly udpStreamTimeout: string;
  };
  readonly oomScoreAdj: number;
  readonly logging: { readonly format: string; readonly verbosity: number };
  readonly nftProxy: {
    readonly affinityMapSize: number;
    readonly refusalLogSize: number;
    readonly configChange: string;
    readonly daemonSocket: string;
    readonly fullResyncPeriod: string;
    readonly master: string;
    readonly nftPath: string;
    readonly reserveNodePorts: boolean;
    readonly resetVanished: boolean;
    readonly scheduler: string;
    readonly serviceCounters: string;
  };
}

/** The fields of kube-proxy's other modes that mean something here. */
interface OtherModes {
  readonly iptables: { readonly masqueradeAll: boolean; readonly masqueradeBit: number };
  readonly ipvs: { readonly scheduler: string };
}

/** A configuration as a user wrote it: any field may be missing, or null for its default. */
export type GivenConfiguration = Given<KubeProxyConfiguration & OtherModes>;

type Given<T> = {
  readonly [Key in keyof T]?:
    | (T[Key] extends readonly unknown[] ? T[Key] : T[Key] extends object ? Given<T[Key]> : T[Key])
    | null;
};
