import type { ResourceName } from "../../../src/kube/source.ts";

/** The kind of a request. `continue` is a list's second page or later, `write` creates or patches. */
export type Verb = "list" | "continue" | "watch" | "write";

/** A faulty answer, sent in place of the right one. */
export type InjectedFault =
  /** An error status with a metav1.Status, and a Retry-After if `retryAfter` is given. */
  | { readonly kind: "status"; readonly status: number; readonly retryAfter?: string }
  /** The connection breaks before an answer. */
  | { readonly kind: "reset" }
  /** The request is never answered. */
  | { readonly kind: "hang" }
  /** 200 and some bytes of the body, then the connection breaks. */
  | { readonly kind: "cut"; readonly body: string }
  /** 200 with this body, ended properly. "" is a watch that is closed at once. */
  | { readonly kind: "body"; readonly body: string }
  /** 200 and this body, then silence. */
  | { readonly kind: "stall"; readonly body: string };

/** A fault, the requests that get it, and how many of them. */
export interface FaultRule {
  readonly resource?: ResourceName;
  readonly verb?: Verb;
  readonly fault: InjectedFault;
  /** Of the matching requests, every n-th gets it; each one if not given. */
  readonly every?: number;
  /** 1 if not given; Infinity for all to come. */
  readonly times?: number;
}

/** The faults to be injected. The first matching rule is used first. */
export class FaultQueue {
  #rules: (FaultRule & { left: number; seen: number })[] = [];

  /** Adds a rule behind those that wait. */
  add(rule: FaultRule): void {
    this.#rules.push({ ...rule, left: rule.times ?? 1, seen: 0 });
  }

  /** Drops all rules. */
  clear(): void {
    this.#rules = [];
  }

  /** The fault for a request, which uses it up; undefined if the request is to be answered rightly. */
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
