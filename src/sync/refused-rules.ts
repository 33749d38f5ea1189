import type { Family } from "../base/family.ts";
import { type ServiceName, type ServicePortKey, serviceOf } from "../model/ids.ts";
import type { NodeContext } from "../ruleset/node-context.ts";

/** The parts of the desired state that are not programmed because the kernel refuses them. */
export class RefusedRules {
  #servicePorts: ReadonlySet<ServicePortKey> = new Set();
  #families: ReadonlyMap<Family, string> = new Map();
  #isRetryDue = false;

  /** Service ports without rules, in quarantine. */
  get servicePorts(): ReadonlySet<ServicePortKey> {
    return this.#servicePorts;
  }

  /** Families without tables, with the kernel's reason. */
  get families(): ReadonlyMap<Family, string> {
    return this.#families;
  }

  /** Puts service ports into quarantine. */
  quarantine(keys: readonly ServicePortKey[]): void {
    this.#servicePorts = new Set([...this.#servicePorts, ...keys]);
  }

  /** Excludes a family. */
  exclude(family: Family, reason: string): void {
    this.#families = new Map([...this.#families, [family, reason]]);
  }

  /** The node context of the families that are not excluded. */
  programmed(nodeContext: NodeContext): NodeContext {
    return nodeContext.filter(({ family }) => !this.#families.has(family));
  }

  /** Lets the next sync try again everything that was refused. @returns whether there is anything to try */
  retry(): boolean {
    this.#isRetryDue = this.#servicePorts.size + this.#families.size > 0;
    return this.#isRetryDue;
  }

  /**
   * Ends the quarantine of Services that changed, and of everything when a retry is due.
   * @returns the service ports whose quarantine ended
   */
  takeRetries(changed: ReadonlySet<ServiceName>): ServicePortKey[] {
    const retried = [...this.#servicePorts].filter((key) => this.#isRetryDue || changed.has(serviceOf(key)));
    if (this.#isRetryDue) this.#families = new Map();
    this.#isRetryDue = false;
    if (retried.length > 0) {
      this.#servicePorts = new Set([...this.#servicePorts].filter((key) => !retried.includes(key)));
    }
    return retried;
  }
}
