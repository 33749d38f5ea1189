import { type ByFamily, byFamily, FAMILIES, FAMILY_NAMES, type Family } from "../../base/family.ts";
import { joinPath, quoted } from "../../base/schema-error.ts";
import { canonicalAddress, familyOf, isLinkLocal, isLoopback, isMulticast, isUnspecified } from "../../model/ip.ts";
import type { Service } from "../../model/service.ts";
import {
  type FieldDiagnostic,
  type LocatedText,
  located,
  type Optional,
  readAddress,
  readCidr,
  textsByFamily,
} from "./decode.ts";

/** The fields of a Service's `spec` that hold addresses. */
export interface RawAddresses {
  readonly clusterIP?: Optional<string>;
  readonly clusterIPs?: Optional<readonly string[]>;
  readonly ipFamilies?: Optional<readonly string[]>;
  readonly externalIPs?: Optional<readonly string[]>;
  readonly loadBalancerSourceRanges?: Optional<readonly string[]>;
}

/** A Service's `status.loadBalancer`. */
export interface RawLoadBalancerStatus {
  readonly ingress?: Optional<readonly { readonly ip?: Optional<string>; readonly ipMode?: Optional<string> }[]>;
}

/** To serve at one of these would take the node's own traffic away, or none at all. */
function isNobodys(address: string): boolean {
  return isUnspecified(address) || isLoopback(address) || isMulticast(address);
}

/**
 * The cluster IP of each family, undefined with faults when they contradict each other or are no addresses:
 * a Service with a wrong cluster IP has no place to be served at.
 */
export function clusterIPsOf(spec: RawAddresses, faults: FieldDiagnostic[]): Record<Family, string> | undefined {
  const before = faults.length;
  const refuse = (path: string, reason: string) => faults.push({ path, reason, severity: "error" });
  const [first] = spec.clusterIPs ?? [];
  const texts =
    first === undefined
      ? [{ text: spec.clusterIP ?? "", path: "spec.clusterIP" }]
      : located(spec.clusterIPs, "spec.clusterIPs");
  const result = byFamily(() => "");
  for (const [index, { text, path }] of texts.entries()) {
    const address = canonicalAddress(text);
    if (address === undefined) refuse(path, `must be an IP address, not ${quoted(text)}`);
    else if (isNobodys(address)) refuse(path, `cannot be served at ${address}`);
    else {
      const family = familyOf(address);
      const wanted = spec.ipFamilies?.[index];
      if (wanted !== undefined && wanted !== FAMILY_NAMES[family]) refuse(path, `must be ${wanted}, not ${address}`);
      else if (result[family] !== "") refuse(path, `is a second ${FAMILY_NAMES[family]} address`);
      else result[family] = address;
    }
  }
  if (spec.clusterIP && first !== undefined && first !== spec.clusterIP)
    refuse("spec.clusterIP", `must be the first of spec.clusterIPs, not ${quoted(spec.clusterIP)}`);
  return faults.length === before ? result : undefined;
}

/** The usable external IPs; the API refuses the others as well (ValidateNonSpecialIP). */
export function externalIPsOf(
  spec: RawAddresses,
  families: ByFamily<boolean>,
  faults: FieldDiagnostic[],
): ByFamily<readonly string[]> {
  const isSpecial = (address: string) => isNobodys(address) || isLinkLocal(address);
  const read = (text: string) => readAddress(text, isSpecial, families);
  return textsByFamily(located(spec.externalIPs, "spec.externalIPs"), read, faults);
}

/**
 * The load-balancer IPs and who may come to them. A range that cannot be read is left out, which lets fewer
 * clients in; but no range at all would let everybody in, so then the load-balancer IPs are left out instead.
 */
export function loadBalancerOf(
  spec: RawAddresses,
  status: Optional<RawLoadBalancerStatus>,
  families: ByFamily<boolean>,
  faults: FieldDiagnostic[],
): Pick<Service, "loadBalancerIPs" | "loadBalancerSourceRanges"> {
  let loadBalancerIPs = textsByFamily(ingressIPs(status), (text) => readAddress(text, isNobodys, families), faults);
  const unreadable: string[] = [];
  const ranges = textsByFamily(
    located(spec.loadBalancerSourceRanges, "spec.loadBalancerSourceRanges"),
    (text) => {
      const cidr = readCidr(text.trim());
      if (typeof cidr !== "string") unreadable.push(text);
      return cidr;
    },
    faults,
  );
  const isAllUnreadable = unreadable.length > 0 && ranges.ip.length + ranges.ip6.length === 0;
  for (const family of FAMILIES) {
    const isMeant = isAllUnreadable || unreadable.some((text) => mayMean(family, text));
    if (ranges[family].length > 0 || !isMeant) continue;
    for (const address of loadBalancerIPs[family]) faults.push(unguarded(address));
    loadBalancerIPs = { ...loadBalancerIPs, [family]: [] };
  }
  return { loadBalancerIPs, loadBalancerSourceRanges: ranges };
}

/** The addresses that a load balancer delivers to unchanged (KEP-1860: `ipMode` VIP, the default). */
function ingressIPs(status: Optional<RawLoadBalancerStatus>): LocatedText[] {
  return (status?.ingress ?? []).flatMap(({ ip, ipMode }, index) => {
    const isVip = ipMode === null || ipMode === undefined || ipMode === "VIP";
    return ip && isVip ? [{ text: ip, path: joinPath(joinPath("status.loadBalancer.ingress", index), "ip") }] : [];
  });
}

/** Whether a range that cannot be read may have been meant for a family: it is, unless it looks like the other. */
function mayMean(family: Family, text: string): boolean {
  if (text.includes(":")) return family === "ip6";
  return family === "ip" || !/^[\s\d./]+$/.test(text);
}

function unguarded(address: string): FieldDiagnostic {
  const reason = `leaves no readable range for ${address}, which is therefore not served`;
  return { path: "spec.loadBalancerSourceRanges", reason, severity: "error" };
}
