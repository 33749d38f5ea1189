import {
  addressText,
  addressWidth,
  joinIntervals,
  parseInterval,
  prefixesOf,
} from "../base/address-interval.ts";
import { type ByFamily, byFamily, type Family } from "../base/family.ts";
import { oncePerObject } from "../base/once-per-object.ts";
import { cidrContains } from "../model/ip.ts";
import type { Service } from "../model/service.ts";
import type { ServicePort } from "../model/service-port.ts";
import { assign, concat, lookup, masked, matches, randomNumber } from "../nft/ast/expression.ts";
import type { Rule, Statement } from "../nft/ast/json.ts";
import type { Chain } from "../nft/ast/ruleset.ts";
import { joinParts } from "../nft/elements.ts";
import { REGISTER } from "./balancers.ts";
import { digest } from "./chain-names.ts";
import type { FrontendKind } from "./frontend-kinds.ts";
import type { SourceRanges } from "./frontend-rules.ts";
import { packetFrontendKey, sourceAddress } from "./keys.ts";
import { LEAST_REGISTER_VALUE } from "./list-ids.ts";
import { beforeRefusal, type FamilyContext } from "./node-context.ts";
import { SOURCE_RANGES } from "./sets.ts";

/**
 * The lengths of prefixes in the set. A rule looks up each, in this order, the most common first. Other
 * prefixes are divided into those of the next longer length: 2 in IPv4, up to 8 in IPv6.
 *
 * A set of intervals would need one lookup, but the kernel compares each element that it deletes with all
 * others: 64 of 96,000 take 1 to 2 s (6.18), in a hash table 6 ms.
 */
const PREFIX_LENGTHS: ByFamily<readonly number[]> = {
  ip: [32, 24, 16, 8, 28, 22, 20, 30, 26, 18, 12, 14, 10, 6, 4, 2],
  ip6: [
    128, 64, 48, 32, 56, 60, 40, 44, 36, 52, 28, 24, 20, 16, 12, 8, 4, 124, 120, 116, 112, 108, 104, 100, 96,
    92, 88, 84, 80, 76, 72, 68,
  ],
};

/** The same, ascending. */
const ASCENDING_LENGTHS = byFamily((family) => PREFIX_LENGTHS[family].toSorted((a, b) => a - b));

/** The numbers of lists, in the register: no id of a list of endpoints is one of them. */
export const FIRST_SOURCE_RANGE_LIST = 0x8100_0000;
/** Maximum number of lists. */
export const MOST_SOURCE_RANGE_LISTS = 0x00ff_ffff;

/** In place of the number of a list: all sources are allowed. */
export const ALLOWS_ALL = LEAST_REGISTER_VALUE;

/** Whether a value is the number of a list. */
export function isListNumber(value: number): boolean {
  return value > FIRST_SOURCE_RANGE_LIST && value <= FIRST_SOURCE_RANGE_LIST + MOST_SOURCE_RANGE_LISTS;
}

/** The source ranges of Services, by context. All ports of a Service share them. */
const knownOf = oncePerObject((_: FamilyContext) => new WeakMap<Service, SourceRanges | undefined>());

/**
 * The source ranges for a service port's load-balancer addresses (`loadBalancerSourceRanges`); undefined for
 * none. Computed once for each Service, which may have thousands of ranges and a hundred ports, and not again
 * if these stay the same.
 *
 * If the node itself is allowed, so are the load-balancer addresses: a node that has such an address uses it
 * as the source of its own requests to it (kube-proxy does the same).
 * @param before the Service before a change
 */
export function sourceRanges(
  { service }: Pick<ServicePort, "service">,
  context: FamilyContext,
  before?: Service,
): SourceRanges | undefined {
  const { family } = context;
  if (service.loadBalancerSourceRanges[family].length === 0 || service.loadBalancerIPs[family].length === 0) {
    return undefined;
  }
  const ofContext = knownOf(context);
  if (!ofContext.has(service)) {
    const isSame = before !== undefined && ofContext.has(before) && haveSameRanges(before, service, family);
    ofContext.set(service, isSame ? ofContext.get(before) : rangesOf(service, context));
  }
  return ofContext.get(service);
}

function haveSameRanges(a: Service, b: Service, family: Family): boolean {
  return (["loadBalancerSourceRanges", "loadBalancerIPs"] as const).every((field) => {
    const [left, right] = [a[field][family], b[field][family]];
    return left.length === right.length && left.every((text, index) => text === right[index]);
  });
}

function rangesOf(service: Service, { family, nodeAddress }: FamilyContext): SourceRanges | undefined {
  const cidrs = service.loadBalancerSourceRanges[family];
  const allowsNode = nodeAddress !== "" && cidrs.some((cidr) => cidrContains(cidr, nodeAddress));
  const ranges = allowsNode ? [...cidrs, ...service.loadBalancerIPs[family]] : cidrs;
  const joined = joinIntervals(ranges.map((range) => parseInterval(family, range)));
  const [first] = joined;
  const most = (1n << BigInt(addressWidth(family))) - 1n;
  if (first !== undefined && first.first === 0n && first.last === most) return undefined;
  const prefixes = joined
    .flatMap((interval) => prefixesOf(addressWidth(family), ASCENDING_LENGTHS[family], interval))
    .map((prefix) => `${addressText(family, prefix.first)}/${prefix.length}`);
  return { id: listIdentity(prefixes), prefixes };
}

/** The number of elements for some ranges (CIDRs) at the most, which joining may reduce. */
export const mostRangeElements = byFamily((family) =>
  oncePerObject((ranges: readonly string[]): number =>
    ranges.reduce((count, range) => {
      const length = Number(range.slice(range.indexOf("/") + 1));
      const divided = ASCENDING_LENGTHS[family].find((one) => one >= length) ?? length;
      return count + 2 ** (divided - length);
    }, 0),
  ),
);

/** Identifies a list by its prefixes, in any order. */
export function listIdentity(prefixes: readonly string[]): string {
  return digest(prefixes.toSorted().join());
}

/** The key of an element of {@link SOURCE_RANGES}: `10.0.0.0 . 2164260865 . 8`. */
export function sourceRangeKey(number: number, prefix: string): string {
  const slash = prefix.indexOf("/");
  return joinParts(prefix.slice(0, slash), number, prefix.slice(slash + 1));
}

/** Sends packets on whose source a list allows; the register has its number. */
function allowedRules(family: Family, end: Statement): Rule[] {
  return PREFIX_LENGTHS[family].map((length) => {
    const source = length === addressWidth(family) ? sourceAddress(family) : networkOf(family, length);
    return [matches(concat(source, REGISTER, randomNumber(1, length)), `@${SOURCE_RANGES}`), end];
  });
}

/** The first bits of the packet's source. nft accepts a mask only in the first part of a key. */
function networkOf(family: Family, length: number) {
  const width = BigInt(addressWidth(family));
  const mask = ((1n << BigInt(length)) - 1n) << (width - BigInt(length));
  return masked(sourceAddress(family), addressText(family, mask));
}

/**
 * Sends a packet with an external way in the register to the check of source ranges, if its frontend has
 * any.
 */
export function toSourceRangesCheck({ family }: FamilyContext, kind: FrontendKind): Rule {
  const list = assign(REGISTER, lookup(packetFrontendKey(family), kind.sourceRangeLists));
  return [list, { jump: { target: kind.chains.sourceRangesCheck } }];
}

/** The chain that drops packets unless the list whose number is in the register allows their source. */
export function sourceRangesCheck(context: FamilyContext, { chains }: FrontendKind): Chain {
  return {
    name: chains.sourceRangesCheck,
    rules: [
      ...allowedRules(context.family, { goto: { target: chains.sourceRangesAllowed } }),
      ...beforeRefusal(context),
      [{ drop: null }],
    ],
  };
}

/**
 * The chain that puts the external way back into the register. If the frontend is gone meanwhile, the number
 * stays there, and nothing serves the packet.
 */
export function sourceRangesAllowed({ family }: FamilyContext, { chains, lists }: FrontendKind): Chain {
  return {
    name: chains.sourceRangesAllowed,
    rules: [[assign(REGISTER, lookup(packetFrontendKey(family), lists))]],
  };
}

/**
 * A chain that goes to another one if a list allows the packet's source; the register has its number, or
 * {@link ALLOWS_ALL}.
 */
export function allowedChain(family: Family, name: string, target: string): Chain {
  const end: Statement = { goto: { target } };
  return { name, rules: [[matches(REGISTER, ALLOWS_ALL), end], ...allowedRules(family, end)] };
}
