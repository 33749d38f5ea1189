import { parseDuration } from "../base/duration.ts";
import { familyOf } from "../model/ip.ts";
import type { GivenConfiguration, KubeProxyConfiguration } from "./configuration.ts";
import { masqueradeSettings } from "./iptables-masquerade.ts";
import { ipvsScheduler } from "./ipvs-scheduler.ts";
import { formatListenAddress, parseListenAddress } from "./listen-address.ts";

/** The default port of `/healthz`. */
export const HEALTHZ_PORT = 10_256;

/** The default port of `/metrics`. */
export const METRICS_PORT = 10_249;

/**
 * Completes a configuration that has passed the schema with kube-proxy's defaults for nftables mode. As in kube-proxy, a
 * zero value means "not given" except in the fields that distinguish null from 0 (`conntrack.min`, `masqueradeBit`).
 * Source: https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/proxy/apis/config/v1alpha1/defaults.go
 */
export function withDefaults(given: GivenConfiguration): KubeProxyConfiguration {
  const bindAddress = orDefault(given.bindAddress, "0.0.0.0");
  const [everywhere, loopback] = familyOf(bindAddress) === "ip" ? ["0.0.0.0", "127.0.0.1"] : ["::", "::1"];
  return {
    apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
    kind: "KubeProxyConfiguration",
    mode: "nftables",
    hostnameOverride: given.hostnameOverride ?? "",
    bindAddress,
    healthzBindAddress: listenAddress(given.healthzBindAddress, everywhere, HEALTHZ_PORT),
    metricsBindAddress: listenAddress(given.metricsBindAddress, loopback, METRICS_PORT),
    bindAddressHardFail: given.bindAddressHardFail ?? false,
    clusterCIDR: given.clusterCIDR ?? "",
    ...(given.featureGates?.AllowServiceExternalIPs === false
      ? { featureGates: { AllowServiceExternalIPs: false } }
      : {}),
    detectLocalMode: orDefault(given.detectLocalMode, "ClusterCIDR"),
    detectLocal: {
      bridgeInterface: given.detectLocal?.bridgeInterface ?? "",
      interfaceNamePrefix: given.detectLocal?.interfaceNamePrefix ?? "",
    },
    nodePortAddresses: given.nodePortAddresses?.length ? given.nodePortAddresses : ["primary"],
    clientConnection: {
      kubeconfig: given.clientConnection?.kubeconfig ?? "",
    },
    nftables: nftables(given),
    conntrack: conntrack(given.conntrack),
    oomScoreAdj: given.oomScoreAdj ?? -999,
    logging: { format: orDefault(given.logging?.format, "text"), verbosity: given.logging?.verbosity ?? 0 },
    nftProxy: nftProxy(given),
  };
}

function nftables(configuration: GivenConfiguration): KubeProxyConfiguration["nftables"] {
  const given = configuration.nftables;
  return {
    ...masqueradeSettings(configuration),
    minSyncPeriod: given?.minSyncPeriod ?? "0s",
    syncPeriod: periodOrDefault(given?.syncPeriod, "30s"),
  };
}

function conntrack(given: GivenConfiguration["conntrack"]): KubeProxyConfiguration["conntrack"] {
  return {
    maxPerCore: given?.maxPerCore ?? 32_768,
    min: given?.min ?? 131_072,
    tcpEstablishedTimeout: given?.tcpEstablishedTimeout ?? "24h0m0s",
    tcpCloseWaitTimeout: given?.tcpCloseWaitTimeout ?? "1h0m0s",
    tcpBeLiberal: given?.tcpBeLiberal ?? false,
    udpTimeout: given?.udpTimeout ?? "0s",
    udpStreamTimeout: given?.udpStreamTimeout ?? "0s",
  };
}

function nftProxy(configuration: GivenConfiguration): KubeProxyConfiguration["nftProxy"] {
  const given = configuration.nftProxy;
  return {
    affinityMapSize: given?.affinityMapSize ?? 1_048_576,
    refusalLogSize: given?.refusalLogSize ?? 65_536,
    configChange: orDefault(given?.configChange, "reload"),
    daemonSocket: given?.daemonSocket ?? "/run/nft-proxy/daemon.sock",
    fullResyncPeriod: given?.fullResyncPeriod ?? "1h0m0s",
    master: given?.master ?? "",
    nftPath: orDefault(given?.nftPath, "nft"),
    resetVanished: given?.resetVanished ?? false,
    reserveNodePorts: given?.reserveNodePorts ?? false,
    scheduler: orDefault(given?.scheduler, ipvsScheduler(configuration)?.scheduler ?? "random"),
    serviceCounters: orDefault(given?.serviceCounters, "off"),
  };
}

function orDefault<T extends string | number>(value: T | null | undefined, otherwise: T): T {
  return value === undefined || value === null || value === "" || value === 0 ? otherwise : value;
}

function periodOrDefault(value: string | null | undefined, otherwise: string): string {
  return value === undefined || value === null || parseDuration(value) === 0 ? otherwise : value;
}

function listenAddress(value: string | null | undefined, address: string, port: number): string {
  return formatListenAddress(parseListenAddress(value ?? "", port) ?? { address, port });
}
