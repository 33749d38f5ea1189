import type { Diagnostic } from "../../kube/files/diagnostic.ts";
import type { OutcomeChange, OutcomeComparison, OutcomeDifference } from "./compare-outcomes.ts";

/** The file of an object, and its first line where that is known. */
export interface ObjectPlace {
  readonly file: string;
  readonly line?: number;
}

/** A difference, and the Service that it concerns. */
export interface ReportedDifference extends OutcomeDifference {
  /** As {@link portName}; undefined for addresses that no Service has any more. */
  readonly service: string | undefined;
  readonly place?: ObjectPlace;
}

/** A comparison of outcomes, ready to print. */
export interface OutcomeReport extends OutcomeComparison {
  readonly differences: readonly ReportedDifference[];
  /** Names of the two sides. */
  readonly sides: readonly [before: string, after: string];
  readonly diagnostics: readonly Diagnostic[];
  /** One line each. */
  readonly notices: readonly string[];
}

/** A Service's port, as `--service` takes it: `namespace/name:port`, `namespace/name` for a nameless port. */
export function portName(service: string, port: string): string {
  return port === "" ? service : `${service}:${port}`;
}

/** The changes that `--fail-on` can name. */
export const OUTCOME_CHANGES: readonly OutcomeChange[] = [
  "refused",
  "dropped",
  "served",
  "not-handled",
  "varies",
  "not-understood",
  "endpoints",
  "shares",
  "source",
  "affinity",
];

/** Whether a difference is of one of some kinds; of no kinds, whether there is one at all. */
export function isOfKind({ changes }: OutcomeDifference, kinds: readonly OutcomeChange[]): boolean {
  return kinds.length === 0 || changes.some((change) => kinds.includes(change));
}
