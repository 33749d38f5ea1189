import type { Listing } from "../../nft/canonical/parse.ts";
import { asObject, asTagged } from "../../nft/canonical/shape.ts";

/** A chain of anybody's, as `nft -j list chains` shows it: without its rules. */
export interface ForeignChain {
  /** Family and name of its table, such as `ip kube-proxy`. */
  readonly table: string;
  readonly name: string;
  /** Absent for a chain that is only jumped to. */
  readonly base?: { readonly hook: string; readonly prio: number; readonly policy: string };
}

/** The chains of a listing, of every family. Throws NFT_OUTPUT for a shape that nft never prints. */
export function foreignChains({ objects }: Listing): ForeignChain[] {
  return objects.flatMap((object) => {
    const [kind, body] = asTagged(object, "listed object");
    if (kind !== "chain") return [];
    const { family, table, name, hook, prio, policy } = asObject(body, kind);
    const chain = { table: `${family} ${table}`, name: String(name) };
    if (hook === undefined) return [chain];
    return [{ ...chain, base: { hook: String(hook), prio: Number(prio), policy: String(policy) } }];
  });
}
