import type { ResourceName } from "../../../src/kube/source.ts";

/** The kind of a request. `continue` is a list's second page or later, `write` creates or patches. */
export type Verb = "list" | "continue" | "watch" | "write";

/** A faulty answer, sent instead of the right one. */
export type InjectedFault =
  /** An error status with a metav1.Status, and a Retry-After if `retryAfter` is given. */
  | { readonly kind: "status"; readonly status: number; readonly retryAfter?: string }
  /** The connection breaks before the answer. */
  | { readonly kind: "reset" }
  /** The request is never answered. */
  | { readonly kind: "hang" }
  /** Status 200 and a part of the body, then the connection breaks. */
  | { readonly kind: "cut"; readonly body: string }
  /** Status 200 with this body, which ends properly. "" is a watch that is closed at once. */
  | { readonly kind: "body"; readonly body: string }
  /** Status 200 and this body, then silence. */
  | { readonly kind: "stall"; readonly body: string };

/** A fault, the requests that get it, and their number. */
export interface FaultRule {
  readonly resource?: ResourceName;
  readonly verb?: Verb;
  readonly fault: InjectedFault;
  /** Every n-th matching request gets the fault. Default: each one. */
  readonly every?: number;
  /** The number of requests that get the fault. Default: 1. Infinity for all later ones. */
  readonly times?: number;
}

/** The faults to inject. The first matching rule is used first. */
export class FaultQueue {
  #rules: (FaultRule & { left: number; seen: number })[] = [];

  /** Adds a rule after the existing ones. */
  add(rule: FaultRule): void {
    this.#rules.push({ ...rule, left: rule.times ?? 1, seen: 0 });
  }

  /** Removes all rules. */
  clear(): void {
    this.#rules = [];
  }

  /**
   * Returns the fault for a request and counts it as used. Returns undefined if the request gets the right
   * answer.
   */
  take(resource: ResourceName | undefined, verb: Verb): InjectedFault | undefined {
    const rule = this.#rules.find(
      (each) => (each.resource ?? resource) === resource && (each.verb ?? verb) === verb && each.left > 0,
    );
    if (rule === undefined) return undefined;
    rule.seen += 1;
    if (rule.seen % (rule.every ?? 1) !== 0) return undefined;
    rule.left -= 1;
    return rule.fault;
  }
}
