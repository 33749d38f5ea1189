import { diagnostic, type HostDiagnostic, type Level } from "./diagnostic.ts";

/** The interface of kube-proxy's ipvs mode, with the addresses of all Services. */
export const IPVS_INTERFACE = "kube-ipvs0";

/** The interface of kube-router's service proxy, with the addresses of all Services. */
export const KUBE_ROUTER_INTERFACE = "kube-dummy-if";

const BOTH = "two service proxies translate the same connections, and either may win";

interface ProxyInterface {
  readonly name: string;
  readonly level: Level;
  readonly found: string;
  readonly means: string;
  readonly action: string;
}

/** Interfaces of software that serves Services, other than kube-proxy. */
const INTERFACES: readonly ProxyInterface[] = [
  {
    name: KUBE_ROUTER_INTERFACE,
    level: "warning",
    found: `the interface ${KUBE_ROUTER_INTERFACE} of kube-router's service proxy is there`,
    means: BOTH,
    action: "run kube-router with --run-service-proxy=false and restart the node, or go without nft-proxy",
  },
  {
    name: "bpfout.cali",
    level: "warning",
    found: "the interface bpfout.cali of Calico's eBPF data plane is there",
    means: BOTH,
    action: "set bpfEnabled to false (FelixConfiguration), or go without nft-proxy",
  },
  {
    name: "cilium_host",
    level: "ok",
    found: "Cilium is on this node (interface cilium_host)",
    means:
      "it balances pods' connections to ClusterIPs itself, and with kubeProxyReplacement everything that nft-proxy does",
    action: "make sure that kubeProxyReplacement is false",
  },
];

/** Whether other software than kube-proxy serves Services on this host, by its interfaces. */
export function judgeProxyInterfaces(interfaces: ReadonlySet<string>): HostDiagnostic[] {
  return INTERFACES.filter(({ name }) => interfaces.has(name)).map(({ level, found, means, action }) =>
    diagnostic("other-proxy", level, found, means, action),
  );
}
