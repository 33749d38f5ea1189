import { stringify } from "yaml";
import { formatDuration } from "../base/duration.ts";
import { assertNever } from "../base/errors.ts";
import type { ConntrackSettings } from "../model/conntrack-settings.ts";
import { nodePortAddressList } from "./cidr-lists.ts";
import type { KubeProxyConfiguration } from "./configuration.ts";
import { formatListenAddress } from "./listen-address.ts";
import type { DetectLocal, ProxyOptions } from "./options.ts";

/**
 * Returns the configuration that yields exactly these options when it is read again. kube-proxy accepts it as well, with
 * a warning about the section `nftProxy`, unless a server is switched off: that is port 0 here, and not possible there.
 */
export function configurationOf(options: ProxyOptions): KubeProxyConfiguration {
  const { master, ...clientConnection } = options.client;
  return {
    apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
    kind: "KubeProxyConfiguration",
    mode: "nftables",
    hostnameOverride: options.hostnameOverride,
    bindAddress: options.bindAddress,
    healthzBindAddress: formatListenAddress(options.healthzBindAddress),
    metricsBindAddress: formatListenAddress(options.metricsBindAddress),
    bindAddressHardFail: options.bindAddressHardFail,
    clusterCIDR: [...options.clusterCIDRs.ip, ...options.clusterCIDRs.ip6].join(","),
    ...(options.serviceExternalIPs ? {} : { featureGates: { AllowServiceExternalIPs: false } }),
    ...detectLocal(options.detectLocal),
    nodePortAddresses: nodePortAddressList(options.nodePortAddresses),
    clientConnection,
    nftables: {
      masqueradeAll: options.masqueradeAll,
      masqueradeBit: options.masqueradeBit,
      minSyncPeriod: formatDuration(options.minSyncPeriodMs),
      syncPeriod: formatDuration(options.syncPeriodMs),
    },
    conntrack: conntrack(options.conntrack),
    oomScoreAdj: options.oomScoreAdj,
    logging: { format: options.logFormat, verbosity: options.logVerbosity },
    nftProxy: {
      affinityMapSize: options.affinityMapSize,
      refusalLogSize: options.refusalLogSize,
      configChange: options.configChange,
      daemonSocket: options.daemonSocket,
      fullResyncPeriod: formatDuration(options.fullResyncPeriodMs),
      master,
      nftPath: options.nftPath,
      resetVanished: options.resetVanished,
      reserveNodePorts: options.reserveNodePorts,
      scheduler: options.scheduler,
      serviceCounters: options.serviceCounters,
    },
  };
}

/** {@link configurationOf} as YAML, its fields sorted as kube-proxy's `--write-config-to` sorts them. */
export function printConfiguration(options: ProxyOptions): string {
  return stringify(configurationOf(options), { sortMapEntries: true, lineWidth: 0 });
}

function detectLocal(given: DetectLocal): Pick<KubeProxyConfiguration, "detectLocalMode" | "detectLocal"> {
  const none = { bridgeInterface: "", interfaceNamePrefix: "" };
  switch (given.kind) {
    case "cluster-cidr":
      return { detectLocalMode: "ClusterCIDR", detectLocal: none };
    case "node-cidr":
      return { detectLocalMode: "NodeCIDR", detectLocal: none };
    case "bridge":
      return { detectLocalMode: "BridgeInterface", detectLocal: { ...none, bridgeInterface: given.interface } };
    case "interface-prefix":
      return { detectLocalMode: "InterfaceNamePrefix", detectLocal: { ...none, interfaceNamePrefix: given.prefix } };
    default:
      return assertNever(given);
  }
}

function conntrack(given: ConntrackSettings): KubeProxyConfiguration["conntrack"] {
  return {
    maxPerCore: given.maxPerCore,
    min: given.min,
    tcpEstablishedTimeout: formatDuration(given.tcpEstablishedTimeoutMs),
    tcpCloseWaitTimeout: formatDuration(given.tcpCloseWaitTimeoutMs),
    tcpBeLiberal: given.tcpBeLiberal,
    udpTimeout: formatDuration(given.udpTimeoutMs),
    udpStreamTimeout: formatDuration(given.udpStreamTimeoutMs),
  };
}
