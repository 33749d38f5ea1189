import { parseDuration } from "../base/duration.ts";
import type { ConntrackSettings } from "../model/conntrack-settings.ts";
import { canonicalAddress } from "../model/ip.ts";
import type { Scheduler } from "../model/scheduler.ts";
import type { ServiceCounters } from "../model/service.ts";
import { parseClusterCIDRs, parseNodePortAddresses } from "./cidr-lists.ts";
import type { KubeProxyConfiguration } from "./configuration.ts";
import { HEALTHZ_PORT, METRICS_PORT } from "./defaults.ts";
import { parseListenAddress } from "./listen-address.ts";
import type { ConfigChange, DetectLocal, ListenAddress, ProxyOptions } from "./options.ts";

/** Converts a complete configuration, which must be valid by `schemaDiagnostics` and `dependencyDiagnostics`, to options. */
export function toOptions(configuration: KubeProxyConfiguration): ProxyOptions {
  const { clientConnection, nftables, nftProxy, logging } = configuration;
  return {
    hostnameOverride: configuration.hostnameOverride.trim().toLowerCase(),
    bindAddress: valid(canonicalAddress(configuration.bindAddress)),
    healthzBindAddress: serverAddress(configuration.healthzBindAddress, HEALTHZ_PORT),
    metricsBindAddress: serverAddress(configuration.metricsBindAddress, METRICS_PORT),
    bindAddressHardFail: configuration.bindAddressHardFail,
    client: { ...clientConnection, master: nftProxy.master },
    // Other modes do not use the CIDRs, and accept any text.
    clusterCIDRs: parseClusterCIDRs(configuration.clusterCIDR) ?? { ip: [], ip6: [] },
    detectLocal: detectLocal(configuration),
    serviceExternalIPs: configuration.featureGates?.AllowServiceExternalIPs ?? true,
    nodePortAddresses: valid(parseNodePortAddresses(configuration.nodePortAddresses)),
    masqueradeAll: nftables.masqueradeAll,
    masqueradeBit: nftables.masqueradeBit,
    syncPeriodMs: milliseconds(nftables.syncPeriod),
    minSyncPeriodMs: milliseconds(nftables.minSyncPeriod),
    fullResyncPeriodMs: milliseconds(nftProxy.fullResyncPeriod),
    conntrack: conntrack(configuration.conntrack),
    oomScoreAdj: configuration.oomScoreAdj,
    logFormat: logging.format as ProxyOptions["logFormat"],
    logVerbosity: logging.verbosity,
    reserveNodePorts: nftProxy.reserveNodePorts,
    scheduler: nftProxy.scheduler as Scheduler,
    serviceCounters: nftProxy.serviceCounters as ServiceCounters,
    affinityMapSize: nftProxy.affinityMapSize,
    refusalLogSize: nftProxy.refusalLogSize,
    resetVanished: nftProxy.resetVanished,
    configChange: nftProxy.configChange as ConfigChange,
    daemonSocket: nftProxy.daemonSocket,
    nftPath: nftProxy.nftPath,
  };
}

function serverAddress(text: string, defaultPort: number): ListenAddress | undefined {
  const listen = valid(parseListenAddress(text, defaultPort));
  return listen.port === 0 ? undefined : listen;
}

function detectLocal({ detectLocalMode, detectLocal }: KubeProxyConfiguration): DetectLocal {
  switch (detectLocalMode) {
    case "NodeCIDR":
      return { kind: "node-cidr" };
    case "BridgeInterface":
      return { kind: "bridge", interface: detectLocal.bridgeInterface };
    case "InterfaceNamePrefix":
      return { kind: "interface-prefix", prefix: detectLocal.interfaceNamePrefix };
    default:
      return { kind: "cluster-cidr" };
  }
}

function conntrack(given: KubeProxyConfiguration["conntrack"]): ConntrackSettings {
  return {
    maxPerCore: given.maxPerCore,
    min: given.min,
    tcpEstablishedTimeoutMs: milliseconds(given.tcpEstablishedTimeout),
    tcpCloseWaitTimeoutMs: milliseconds(given.tcpCloseWaitTimeout),
    udpTimeoutMs: milliseconds(given.udpTimeout),
    udpStreamTimeoutMs: milliseconds(given.udpStreamTimeout),
    tcpBeLiberal: given.tcpBeLiberal,
  };
}

function milliseconds(duration: string): number {
  return valid(parseDuration(duration));
}

function valid<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("the configuration was not validated");
  return value;
}
