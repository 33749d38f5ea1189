import type { ServicePort } from "../model/service-port.ts";
import type { Refusal } from "./chain-names.ts";
import type { Way } from "./list-ids.ts";

/** The rules of one frontend. Only one service port can have a frontend: see conflicts in family-state.ts. */
export interface FrontendRules {
  /** The service port that wants it. */
  readonly port: ServicePort;
  /** `10.96.0.10 . tcp . 53`, or `0.0.0.0 . tcp . 30080` for a NodePort. */
  readonly key: string;
  /** How it leads to the lists of the service port; undefined if it leads to none. */
  readonly way?: Way;
  /** Only for a port without endpoints; for intervals, see `ServicePortLists.empty`. */
  readonly refusal?: Refusal;
  /** The source ranges that guard the frontend. */
  readonly guard?: SourceRanges;
}

/**
 * The source ranges of frontends. All lists share one set; a frontend leads to the number of its list. A list
 * never changes: a Service with other ranges gets the number of another list.
 */
export interface SourceRanges {
  /** Identifies the list: equal ranges have equal ids. */
  readonly id: string;
  /** The allowed addresses as `10.0.0.0/8`, with lengths of `PREFIX_LENGTHS`; none overlap. */
  readonly prefixes: readonly string[];
}
