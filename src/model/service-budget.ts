/** How much of each thing one Service may have, by the names of the options. One that has more gets no rules, so that nobody else goes short for it. */
export interface ServiceBudget {
  /** Elements of sets and maps in the kernel, of both families. */
  readonly maxServiceElements: number;
  /** Entries of `spec.loadBalancerSourceRanges`. */
  readonly maxServiceSourceRanges: number;
  /** Entries of `spec.externalIPs` and of `status.loadBalancer.ingress`. */
  readonly maxServiceAddresses: number;
}

/**
 * The defaults. 150,000 elements hold two ports with slot tables of the largest size, or 5,000 endpoints at 30 ports; nft
 * takes 2 to 4 s for them, in transactions that take 24 MB each. 20,000 source ranges are read in 100 ms, and are more
 * than the prefixes of most countries; 2,000 addresses are more than any load balancer is known to give to a Service.
 */
export const SERVICE_BUDGET: ServiceBudget = {
  maxServiceElements: 150_000,
  maxServiceSourceRanges: 20_000,
  maxServiceAddresses: 2_000,
};

/** A budget that a Service exceeds. */
export interface Excess {
  readonly of: keyof ServiceBudget;
  readonly count: number;
  readonly budget: number;
}

const WORDS: Readonly<Record<keyof ServiceBudget, readonly [what: string, flag: string]>> = {
  maxServiceElements: ["elements in the kernel", "--max-service-elements"],
  maxServiceSourceRanges: ["source ranges", "--max-service-source-ranges"],
  maxServiceAddresses: ["external and load balancer addresses", "--max-service-addresses"],
};

/** Returns the budget that a count exceeds; undefined if it does not. */
export function excessOf(of: keyof ServiceBudget, count: number, budget: number): Excess | undefined {
  return count > budget ? { of, count, budget } : undefined;
}

/** Formats an excess: `a Service can have 20000 source ranges (--max-service-source-ranges), and this one has 80000`. */
export function excessText({ of, count, budget }: Excess): string {
  const [what, flag] = WORDS[of];
  return `a Service can have ${budget} ${what} (${flag}), and this one has ${count}`;
}
