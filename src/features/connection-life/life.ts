import { durationText, parseDuration } from "../../base/duration.ts";
import { quoted } from "../../base/text.ts";
import type { Service } from "../../model/service.ts";
import type { Parsed } from "../seam/feature.ts";
import { FEATURE } from "./rules.ts";

/** The annotation of a Service that determines whether TCP connections to a removed endpoint are reset. */
export const ON_REMOVED_ANNOTATION = "nft-proxy.io/on-endpoint-removed";

/** The annotation of a Service that limits how long a terminating endpoint keeps its connections: `60s`. */
export const DRAIN_TIMEOUT_ANNOTATION = "nft-proxy.io/drain-timeout";

/** Whether clients of removed endpoints wait (`keep`) or get a reset. */
const ON_REMOVED = ["keep", "reset"] as const;

/** What happens to a Service's connections when an endpoint terminates or leaves; at least one of these. */
export interface ConnectionLife {
  /** For TCP; absent to do what `--reset-vanished` says. */
  readonly onEndpointRemoved?: (typeof ON_REMOVED)[number];
  /** How long connections may stay with a terminating endpoint, in milliseconds; absent for any time. */
  readonly drainTimeoutMs?: number;
}

const NONE: ConnectionLife = {};

/** The values of a Service's annotations. */
export function connectionLifeOf({ features }: Pick<Service, "features">): ConnectionLife {
  return (features?.[FEATURE] as ConnectionLife | undefined) ?? NONE;
}

const SHORTEST_DRAIN = 1000;
const LONGEST_DRAIN = 3_600_000;

/** Parses `keep` or `reset`. */
export function parseOnRemoved(text: string): Parsed {
  const onEndpointRemoved = ON_REMOVED.find((word) => word === text.trim());
  return onEndpointRemoved === undefined
    ? { reason: `must be ${ON_REMOVED.join(" or ")}, not ${quoted(text)}` }
    : { value: { onEndpointRemoved } satisfies ConnectionLife };
}

/** Parses a drain timeout, 1s to 1h in Go's format. */
export function parseDrainTimeout(text: string): Parsed {
  const drainTimeoutMs = parseDuration(text.trim());
  if (drainTimeoutMs !== undefined && drainTimeoutMs >= SHORTEST_DRAIN && drainTimeoutMs <= LONGEST_DRAIN)
    return { value: { drainTimeoutMs } satisfies ConnectionLife };
  const [least, most] = [SHORTEST_DRAIN, LONGEST_DRAIN].map((each) => durationText(each / 1000));
  return { reason: `must be a duration from ${least} to ${most} such as "60s", not ${quoted(text)}` };
}
