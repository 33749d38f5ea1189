import { FAMILIES, type Family } from "../../base/family.ts";
import { listText } from "../../base/text.ts";
import { diagnostic, type HostDiagnostic } from "./diagnostic.ts";
import type { Settings, UsedFamilies } from "./settings-check.ts";

/** Bridges that CNI plugins connect pods with: the bridge plugin's and Flannel's, kubenet's, kube-router's. */
const POD_BRIDGES: readonly string[] = ["cni0", "cbr0", "kube-bridge"];

/** Whether bridges hand packets to the IP hooks, by family; absent without the module br_netfilter. */
export const BRIDGE_SETTINGS: Readonly<Record<Family, string>> = {
  ip: "/proc/sys/net/bridge/bridge-nf-call-iptables",
  ip6: "/proc/sys/net/bridge/bridge-nf-call-ip6tables",
};

/**
 * Whether pods on one bridge reach each other through Services. The answer of an endpoint goes back by the bridge: it must
 * pass the IP hooks, or it keeps the endpoint's address, which the client does not expect. kube-proxy needs it as well.
 * @param interfaces the names of this network namespace's interfaces
 */
export function judgeBridges(
  interfaces: ReadonlySet<string>,
  settings: Settings,
  used: UsedFamilies,
): HostDiagnostic[] {
  const bridges = POD_BRIDGES.filter((name) => interfaces.has(name));
  if (bridges.length === 0) return [];
  // Of a cluster that is not known to have IPv6, IPv4 alone is asked for.
  const off = FAMILIES.filter(
    (family) => (used ?? ["ip"]).includes(family) && settings.get(BRIDGE_SETTINGS[family]) !== 1,
  );
  const found = `pods are on the bridge ${listText(bridges)}`;
  if (off.length === 0) return [diagnostic("bridge-netfilter", "ok", `${found}, whose packets pass the rules`)];
  const names = off.map((family) => BRIDGE_SETTINGS[family].replace("/proc/sys/", "").replaceAll("/", "."));
  const isLoaded = off.every((family) => settings.has(BRIDGE_SETTINGS[family]));
  return [
    diagnostic(
      "bridge-netfilter",
      "warning",
      `${found}, and ${isLoaded ? `${listText(names)} is not 1` : "the module br_netfilter is not loaded"}`,
      "a pod gets no answer from a Service's endpoint on the same bridge: it comes back past the rules",
      `load br_netfilter (modules-load.d), and set ${listText(names.map((name) => `${name}=1`))} (sysctl.d)`,
    ),
  ];
}
