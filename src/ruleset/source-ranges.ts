import { intervalText, joinIntervals, parseInterval } from "../base/address-interval.ts";
import type { Family } from "../base/family.ts";
import { cidrContains } from "../model/ip.ts";
import type { Service } from "../model/service.ts";
import type { ServicePort } from "../model/service-port.ts";
import { differs } from "../nft/ast/expression.ts";
import type { Chain } from "../nft/ast/ruleset.ts";
import { type FirewallName, firewallNames } from "./chain-names.ts";
import { sourceAddress } from "./keys.ts";
import type { FamilyContext } from "./node-context.ts";
import { recordingRules } from "./refusal-rules.ts";
import { type NamedSetSpec, sourceRangesSpec } from "./sets.ts";

/** The chain that enforces source ranges, and the set with these: one pair for each distinct list. */
export interface SourceRanges {
  readonly chain: Chain & { readonly name: FirewallName };
  readonly set: NamedSetSpec;
  /** The keys of the set's elements: ascending, with overlapping and adjacent ranges joined. */
  readonly ranges: readonly string[];
}

/** The source ranges of Services, by context. All ports of a Service share them. */
const known = new WeakMap<FamilyContext, WeakMap<Service, SourceRanges | undefined>>();

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
  { service }: ServicePort,
  context: FamilyContext,
  before?: Service,
): SourceRanges | undefined {
  const { family } = context;
  if (service.loadBalancerSourceRanges[family].length === 0 || service.loadBalancerIPs[family].length === 0) {
    return undefined;
  }
  const ofContext = known.get(context) ?? new WeakMap<Service, SourceRanges | undefined>();
  known.set(context, ofContext);
  if (!ofContext.has(service)) {
    const isSame = before !== undefined && ofContext.has(before) && haveSameRanges(before, service, family);
    ofContext.set(service, isSame ? ofContext.get(before) : guardOf(service, context));
  }
  return ofContext.get(service);
}

function haveSameRanges(a: Service, b: Service, family: Family): boolean {
  return (["loadBalancerSourceRanges", "loadBalancerIPs"] as const).every((field) => {
    const [left, right] = [a[field][family], b[field][family]];
    return left.length === right.length && left.every((text, index) => text === right[index]);
  });
}

function guardOf(service: Service, context: FamilyContext): SourceRanges | undefined {
  const { family, nodeAddress } = context;
  const cidrs = service.loadBalancerSourceRanges[family];
  const allowsNode = nodeAddress !== "" && cidrs.some((cidr) => cidrContains(cidr, nodeAddress));
  const ranges = joinedRanges(family, allowsNode ? [...cidrs, ...service.loadBalancerIPs[family]] : cidrs);
  if (ranges.length === 1 && ranges[0]?.endsWith("/0")) return undefined;
  const names = firewallNames(ranges.join());
  const isForbidden = differs(sourceAddress(family), `@${names.set}`);
  return {
    chain: {
      name: names.chain,
      rules: [...recordingRules(context, isForbidden), [isForbidden, { drop: null }]],
    },
    set: sourceRangesSpec(names.set, context),
    ranges,
  };
}

function joinedRanges(family: Family, ranges: readonly string[]): readonly string[] {
  return joinIntervals(ranges.map((range) => parseInterval(family, range))).map((one) =>
    intervalText(family, one),
  );
}
