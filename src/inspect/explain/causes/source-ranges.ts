import { listText } from "../../../base/text.ts";
import { cidrContains, familyOf } from "../../../model/ip.ts";
import type { Connection, Result, Verdict } from "../explanation.ts";
import type { Match } from "../match.ts";
import type { Reason } from "./endpoint-causes.ts";

/** The part of the evidence that source ranges concern. */
interface Guarded {
  readonly connection: Connection;
  readonly match: Match | undefined;
}

/** Addresses of which at least one is outside of any ranges but those that hold every address. */
const OUTSIDERS: Readonly<Record<"ip" | "ip6", readonly string[]>> = {
  ip: ["192.0.2.1", "1.1.1.1", "129.0.0.1", "64.0.0.1", "200.0.0.1"],
  ip6: ["2001:db8::1", "2a00::1", "2400::1", "9000::1", "4000::1"],
};

/** Whether a connection is served to some clients only, while its own client is an assumption. */
export function dependsOnClient(result: Result, { connection, match }: Guarded): boolean {
  if (result !== "served" || connection.from.known === "given" || !match?.frontend.guarded) return false;
  const ranges = rangesOf(match);
  return OUTSIDERS[familyOf(connection.to)].some((address) => !ranges.some((range) => cidrContains(range, address)));
}

/** The verdict for a client that was not given: the ranges, and the outcome for a client within them. */
export function sourceRangesVerdict(reason: Reason, { match }: Guarded): Verdict {
  const ranges = match === undefined ? [] : rangesOf(match);
  return {
    ...reason,
    result: "varies",
    cause: "source-ranges",
    message: `allowed from ${listText(ranges)}, dropped otherwise; ${reason.message}`,
  };
}

/** The cause of a drop for a client outside of the source ranges. */
export function sourceRangeReason({ connection, match }: Guarded): Reason {
  const of = match === undefined ? "" : ` of Service ${match.port.service.name} (${listText(rangesOf(match))})`;
  return {
    cause: "source-ranges",
    message: `${connection.from.address} is in none of the loadBalancerSourceRanges${of}`,
    action: "add its address to spec.loadBalancerSourceRanges to allow it",
  };
}

function rangesOf({ port: { service, family } }: Match): readonly string[] {
  return service.loadBalancerSourceRanges[family];
}
