/**
 * The default of the budget of one Service: elements of sets and maps in the kernel, of both families. A
 * Service beyond a budget gets no rules, so that it takes no resources from others. 150,000 elements are
 * enough for two ports with slot tables of the largest size, or 5,000 endpoints at 30 ports. nft takes 2 to
 * 4 s for them, in transactions that take 24 MB each.
 */
export const MAX_SERVICE_ELEMENTS = 150_000;

/** Entries of `spec.loadBalancerSourceRanges`: read in 100 ms, more than the prefixes of most countries. */
export const MOST_SOURCE_RANGES = 20_000;

/**
 * Entries of `spec.externalIPs` and of `status.loadBalancer.ingress`: more than any known load balancer gives
 * to a Service.
 */
export const MOST_ADDRESSES = 2000;

/** The shared budgets of all Services, by the names of the options. The newest Services lose first. */
export interface SharedBudget {
  /** Elements of sets and maps in the kernel, of both families, for all Services. */
  readonly maxElements: number;
  /** The same for the Services of one namespace. */
  readonly maxNamespaceElements: number;
}

/**
 * The defaults, which fit into the image's heap of 640 MiB. 44,000 Services of 2 endpoints have 220,000
 * elements, 10,000 of 10 with load balancer addresses 170,000. 1,000,000 elements take 75 MB of node's heap
 * as slot tables, 130 MB as endpoints of long lists, 220 MB as addresses, 340 MB as addresses without
 * endpoints, and at most 440 MB, as ports of one endpoint. The peak of all processes together is 415 MB with
 * 890,000 elements of slot tables, and 1,265 MB with 1,000,000 of ports of one endpoint, half of it for nft
 * to list them; the DaemonSet's limit is 1,342 MB.
 */
export const SHARED_BUDGET: SharedBudget = {
  maxElements: 1_000_000,
  maxNamespaceElements: 500_000,
};

type Budget = keyof SharedBudget | "maxServiceElements" | "sourceRanges" | "addresses";

/** What a limit counts, the flag that raises it, and whose limit it is: `a Service` if absent. */
export type LimitWords = readonly [what: string, flag?: string, whose?: string];

/** A budget that a Service exceeds. */
export interface Excess {
  readonly of: Budget | LimitWords;
  readonly count: number;
  readonly budget: number;
  /** The amount that older Services leave of a shared budget. */
  readonly left?: number;
}

const WORDS: Readonly<Record<Budget, LimitWords>> = {
  maxElements: ["elements in the kernel", "--max-elements", "all Services together"],
  maxNamespaceElements: ["elements in the kernel", "--max-namespace-elements", "the Services of a namespace"],
  maxServiceElements: ["elements in the kernel", "--max-service-elements"],
  sourceRanges: ["source ranges"],
  addresses: ["external and load balancer addresses"],
};

/** Returns the budget that a count exceeds; undefined if it does not. */
export function excessOf(of: Excess["of"], count: number, budget: number): Excess | undefined {
  return count > budget ? { of, count, budget } : undefined;
}

/**
 * Formats an excess: `a Service can have 20000 source ranges, and this one has 80000`. For a shared budget,
 * adds by how much: `..., and this one has 80000, 5000 more than older ones leave`.
 */
export function excessText({ of, count, budget, left }: Excess): string {
  const [what, flag, whose = "a Service"] = typeof of === "string" ? WORDS[of] : of;
  const option = flag === undefined ? "" : ` (${flag})`;
  const more = left === undefined ? "" : `, ${count - left} more than older ones leave`;
  return `${whose} can have ${budget} ${what}${option}, and this one has ${count}${more}`;
}
