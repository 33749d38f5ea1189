import { type ByFamily, byFamily } from "../base/family.ts";
import { canonicalCidr, familyOf } from "../model/ip.ts";
import type { NodePortSelection } from "./options.ts";

const EVERY_ADDRESS: ByFamily<string> = { ip: "0.0.0.0/0", ip6: "::/0" };

/**
 * Reads the CIDR of the cluster's pods, or a pair of both families separated by a comma.
 *
 * @returns canonical CIDRs, none for ""; undefined for anything else, also for two of one family, of which
 * kube-proxy would use one only.
 */
export function parseClusterCIDRs(text: string): ByFamily<readonly string[]> | undefined {
  if (text === "") return { ip: [], ip6: [] };
  const lists = splitByFamily(text.split(","));
  return lists === undefined || lists.ip.length > 1 || lists.ip6.length > 1 ? undefined : lists;
}

/**
 * Reads the list of `nodePortAddresses`: the one word `primary`, or CIDRs. An empty list means primary, as in
 * kube-proxy's nftables mode.
 *
 * @returns undefined when an entry is no CIDR, or `primary` is not alone.
 */
export function parseNodePortAddresses(list: readonly string[]): NodePortSelection | undefined {
  if (list.length === 0 || (list.length === 1 && list[0] === "primary")) return "primary";
  const given = splitByFamily(list);
  if (given === undefined) return undefined;
  return byFamily((family) => (given[family].length === 0 ? [EVERY_ADDRESS[family]] : given[family]));
}

function splitByFamily(list: readonly string[]): ByFamily<readonly string[]> | undefined {
  const cidrs = list.map((text) => canonicalCidr(text)).filter((cidr) => cidr !== undefined);
  if (cidrs.length < list.length) return undefined;
  const unique = [...new Set(cidrs)];
  return byFamily((family) => unique.filter((cidr) => familyOf(cidr) === family));
}
