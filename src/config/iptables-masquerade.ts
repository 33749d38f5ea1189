import type { GivenConfiguration, KubeProxyConfiguration } from "./configuration.ts";
import { type ConfigWarning, ignoredWarning } from "./diagnostic.ts";

/** kube-proxy's default of `masqueradeBit`, in each of its modes. */
const DEFAULT_BIT = 14;

/**
 * Returns how packets are masqueraded. In kube-proxy the section `iptables` decides it in every mode but nftables: whoever
 * comes from these keeps a bit that no other software uses, and the masquerading that some network plugins need.
 * Source: https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/proxy/apis/config/v1alpha1/conversion.go
 */
export function masqueradeSettings({
  mode,
  iptables,
  nftables,
}: GivenConfiguration): Pick<KubeProxyConfiguration["nftables"], "masqueradeAll" | "masqueradeBit"> {
  const other = mode === "nftables" ? undefined : iptables;
  return {
    masqueradeAll: nftables?.masqueradeAll === true || other?.masqueradeAll === true,
    masqueradeBit: nftables?.masqueradeBit ?? other?.masqueradeBit ?? DEFAULT_BIT,
  };
}

/** Returns true for a bit of the packet mark: an integer from 0 to 31. */
export function isMarkBit(value: unknown): value is number {
  return Number.isInteger(value) && 0 <= Number(value) && Number(value) <= 31;
}

/**
 * Returns the warnings that a field of the section `iptables` is not used as it was given.
 * @param bit the name of `masqueradeBit` in the warnings: that of the field, or of the flag
 */
export function masqueradeWarnings(given: GivenConfiguration, bit = "iptables.masqueradeBit"): ConfigWarning[] {
  const used = masqueradeSettings(given);
  const { masqueradeAll, masqueradeBit } = given.iptables ?? {};
  const reason =
    given.mode === "nftables" ? "it counts in other modes than nftables" : "nftables.masqueradeBit decides";
  return [
    ...(masqueradeAll === true && !used.masqueradeAll ? [ignoredWarning("iptables.masqueradeAll", reason)] : []),
    ...(typeof masqueradeBit === "number" && masqueradeBit !== used.masqueradeBit ? [ignoredWarning(bit, reason)] : []),
  ];
}
