import { type ByFamily, byFamily, FAMILIES, FAMILY_NAMES, type Family } from "../../base/family.ts";
import { quoted } from "../../base/text.ts";
import {
  canonicalAddress,
  canonicalCidr,
  familyOf,
  isLinkLocal,
  isLoopback,
  isMulticast,
  isUnspecified,
} from "../../model/ip.ts";
import type { Service } from "../../model/service.ts";
import {
  type FieldDiagnostic,
  fieldError,
  located,
  NO_TEXTS,
  notAnAddress,
  readAddress,
  readCidr,
  textsByFamily,
} from "./decode.ts";
import type { DiagnosticCode } from "./diagnostic-code.ts";
import { ingressAddresses, type RawService, type RawServiceSpec } from "./raw-service.ts";

/**
 * Returns true for addresses that no Service may have: rules for them would hijack the node's own traffic.
 */
function isReserved(address: string): boolean {
  return isUnspecified(address) || isLoopback(address) || isMulticast(address);
}

/**
 * Returns true for addresses that no external IP may be. Source: ValidateNonSpecialIP,
 * https://github.com/kubernetes/kubernetes/blob/v1.36.2/pkg/apis/core/validation/validation.go
 */
function isSpecial(address: string): boolean {
  return isReserved(address) || isLinkLocal(address);
}

/**
 * Returns the cluster IP of each family, "" for none.
 * @returns undefined, with diagnostics, if an address is malformed or the fields contradict each other; the
 * Service is then invalid
 */
export function clusterIPsOf(
  spec: RawServiceSpec,
  diagnostics: FieldDiagnostic[],
): Record<Family, string> | undefined {
  const before = diagnostics.length;
  const refuse = (code: DiagnosticCode, path: string, reason: string) =>
    diagnostics.push(fieldError(code, path, reason));
  const [first] = spec.clusterIPs ?? [];
  const texts =
    first === undefined
      ? [{ text: spec.clusterIP ?? "", path: "spec.clusterIP" }]
      : located(spec.clusterIPs, "spec.clusterIPs");
  const result = byFamily(() => "");
  for (const [index, { text, path }] of texts.entries()) {
    const address = canonicalAddress(text);
    if (address === undefined) diagnostics.push({ path, ...notAnAddress(text) });
    else if (isReserved(address)) refuse("reserved-address", path, `cannot be served at ${address}`);
    else {
      const family = familyOf(address);
      const wanted = spec.ipFamilies?.[index];
      if (wanted !== undefined && wanted !== FAMILY_NAMES[family])
        refuse("cluster-ip-mismatch", path, `must be ${wanted}, not ${address}`);
      else if (result[family] !== "")
        refuse("cluster-ip-mismatch", path, `is a second ${FAMILY_NAMES[family]} address`);
      else result[family] = address;
    }
  }
  if (spec.clusterIP && first !== undefined && first !== spec.clusterIP)
    refuse(
      "cluster-ip-mismatch",
      "spec.clusterIP",
      `must be the first of spec.clusterIPs, not ${quoted(spec.clusterIP)}`,
    );
  return diagnostics.length === before ? result : undefined;
}

/** The addresses by which a Service is reached from outside, and the clients that may use them. */
type ExternalAddresses = Pick<Service, "externalIPs" | "loadBalancerIPs" | "loadBalancerSourceRanges">;

/** The addresses of a Service that is not reached from outside. */
export const NO_EXTERNAL_ADDRESSES: ExternalAddresses = {
  externalIPs: NO_TEXTS,
  loadBalancerIPs: NO_TEXTS,
  loadBalancerSourceRanges: NO_TEXTS,
};

/**
 * Returns the valid addresses, of the families that the Service has, and the source ranges that are allowed
 * to connect to load balancer IPs. A malformed range is ignored, which allows fewer clients. But an empty
 * list would allow all clients: if no valid range is left for a family, its load balancer IPs are not served.
 */
export function externalAddressesOf(
  raw: RawService,
  families: ByFamily<boolean>,
  diagnostics: FieldDiagnostic[],
): ExternalAddresses {
  const externalIPs = textsByFamily(
    located(raw.spec.externalIPs, "spec.externalIPs"),
    (text) => readAddress(text, isSpecial, families),
    diagnostics,
  );
  let loadBalancerIPs = textsByFamily(
    // Only with this mode do packets reach nodes with that destination: https://kep.k8s.io/1860.
    ingressAddresses(raw).filter(({ ipMode }) => (ipMode ?? "VIP") === "VIP"),
    (text) => readAddress(text, isReserved, families),
    diagnostics,
  );
  const texts = raw.spec.loadBalancerSourceRanges ?? [];
  const ranges = textsByFamily(
    located(texts, "spec.loadBalancerSourceRanges"),
    (text) => readCidr(text.trim()),
    diagnostics,
  );
  for (const family of unguardedFamilies(texts, ranges)) {
    for (const address of loadBalancerIPs[family]) diagnostics.push(unguarded(address));
    loadBalancerIPs = { ...loadBalancerIPs, [family]: [] };
  }
  return { externalIPs, loadBalancerIPs, loadBalancerSourceRanges: ranges };
}

/**
 * Returns the families whose load balancer IPs are not served: malformed ranges may have been intended for
 * them, and no valid one is left.
 * @param ranges the valid ones among the texts
 */
export function unguardedFamilies(
  texts: readonly string[],
  ranges: Service["loadBalancerSourceRanges"],
): Family[] {
  const readable = ranges.ip.length + ranges.ip6.length;
  // There may be tens of thousands, which are usually all valid.
  if (readable === texts.length) return [];
  const unreadable = texts.filter((text) => canonicalCidr(text.trim()) === undefined);
  const isAllUnreadable = unreadable.length > 0 && readable === 0;
  return FAMILIES.filter(
    (family) =>
      ranges[family].length === 0 && (isAllUnreadable || unreadable.some((text) => mayMean(family, text))),
  );
}

/**
 * Whether a malformed range may have been intended for a family: it was not if it looks like the other
 * family.
 */
function mayMean(family: Family, text: string): boolean {
  if (text.includes(":")) return family === "ip6";
  return family === "ip" || !/^[\s\d./]+$/.test(text);
}

function unguarded(address: string): FieldDiagnostic {
  const reason = `has no valid range for ${address}, which is therefore not served`;
  return fieldError("no-valid-source-range", "spec.loadBalancerSourceRanges", reason);
}
