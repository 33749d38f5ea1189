import type { Family } from "../../src/base/family.ts";
import type { MachineName } from "../support/lab/topology.ts";
import type { Target } from "./targets.ts";

/** A connection that failed. Times are milliseconds since 1970. */
export interface Failure {
  readonly target: Target;
  readonly client: MachineName;
  /** When it was made, or when it was last answered. */
  readonly from: number;
  readonly until: number;
  /** `timeout`, `closed`, `silent`, `no answer` or an error's code. */
  readonly error: string;
}

/** The time in which a fault explains that connections fail, from its first effect to its repair. */
export interface Harm {
  /** The fault's name. */
  readonly fault: string;
  readonly from: number;
  readonly until: number;
  readonly families: readonly Family[];
  /** The name of the only Service that it harms; all of them if absent. */
  readonly service?: string;
}

/**
 * Milliseconds after the repair in which a connection of the time before may still fail: clients wait 3 s for
 * a connection; stale UDP flows are deleted after the repair; TCP sends what got lost again after doubling
 * times, and a long-lived connection counts as silent after 15 s.
 */
const AFTERMATH: Readonly<Record<Target["kind"], number>> = {
  "cluster-ip": 4000,
  "node-port": 4000,
  udp: 5000,
  held: 17_000,
};

/** Which of some harms explains a failure; undefined for none. */
export function explanationOf({ target, from, until }: Failure, harms: readonly Harm[]): Harm | undefined {
  return harms.find(
    (harm) =>
      harm.families.includes(target.family) &&
      (harm.service ?? target.name) === target.name &&
      from <= harm.until &&
      until >= harm.from &&
      until <= harm.until + AFTERMATH[target.kind],
  );
}
