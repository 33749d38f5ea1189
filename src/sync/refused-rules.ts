import type { Family } from "../base/family.ts";
import type { TransactionFailedError } from "../kernel/nft-errors.ts";
import { type ServiceName, type ServicePortKey, serviceOf } from "../model/ids.ts";
import type { NodeContext } from "../ruleset/node-context.ts";
import type { PortReasons } from "../ruleset/port-reasons.ts";
import type { Quarantine } from "./quarantine-changes.ts";

/** Why a service port is quarantined, as the start of its reason. */
const REFUSED_BY_KERNEL = "the kernel refuses its rules";
const FAILING = "nft fails on its rules";

/**
 * Number of equal failures in a row, other than refusals, after which to search for the Service that causes
 * them.
 */
const EQUAL_FAILURES = 3;

/**
 * The number of failed transactions with one reason since the last success, and the number at which to search
 * for the cause.
 */
const NO_FAILURES = { message: "", count: 0, lookAt: EQUAL_FAILURES };

/**
 * The parts of the desired state that are not programmed because the kernel refuses them, or nft fails on
 * them.
 */
export class RefusedRules {
  #servicePorts: Quarantine = new Map();
  #families: ReadonlyMap<Family, string> = new Map();
  #isRetryDue = false;
  #failures = NO_FAILURES;
  #probation: Quarantine = new Map();
  /** The last result of {@link RefusedRules.with}, and the quarantines that it joins. */
  #joined: { readonly others: PortReasons; readonly own: Quarantine; readonly all: PortReasons } | undefined;

  /** Service ports without rules, in quarantine. */
  get servicePorts(): Quarantine {
    return this.#servicePorts;
  }

  /** Families without tables, with the kernel's reason. */
  get families(): ReadonlyMap<Family, string> {
    return this.#families;
  }

  /**
   * Service ports whose quarantine for failures of nft ended: they are to be tried alone before they are
   * sent.
   */
  get probation(): Quarantine {
    return this.#probation;
  }

  /** Joins two quarantines. @returns the same map as long as neither changes */
  with(others: PortReasons): PortReasons {
    const own = this.#servicePorts;
    if (own.size === 0) return others;
    if (this.#joined?.others !== others || this.#joined.own !== own)
      this.#joined = { others, own, all: others.with(own) };
    return this.#joined.all;
  }

  /** Quarantines service ports. @param reasonOf the reason for each; that the kernel refuses it if absent */
  quarantine(
    keys: readonly ServicePortKey[],
    reasonOf: (key: ServicePortKey) => string = () => REFUSED_BY_KERNEL,
  ): void {
    const added = keys.map((key) => [key, reasonOf(key)] as const);
    this.#servicePorts = new Map([...this.#servicePorts, ...added]);
  }

  /** Quarantines service ports that make nft fail. */
  quarantineFailing(keys: readonly ServicePortKey[], { message }: TransactionFailedError): void {
    this.quarantine(keys, () => `${FAILING}: ${message}`);
  }

  /**
   * Ends the probation.
   * @param failing the service ports on probation that still make nft fail: they are quarantined again
   */
  endProbation(failing: readonly ServicePortKey[]): void {
    this.quarantine(failing, (key) => this.#probation.get(key) ?? FAILING);
    this.#probation = new Map();
  }

  exclude(family: Family, reason: string): void {
    this.#families = new Map([...this.#families, [family, reason]]);
  }

  /** The node context of the families that are not excluded. */
  programmed(nodeContext: NodeContext): NodeContext {
    return nodeContext.filter(({ family }) => !this.#families.has(family));
  }

  /**
   * Counts equal failures in a row.
   * @returns true for the third; if no Service was found to cause it, for the sixth, the twelfth and so on
   */
  isRepeated({ message }: TransactionFailedError): boolean {
    const known = message === this.#failures.message ? this.#failures : NO_FAILURES;
    const { lookAt } = known;
    const count = known.count + 1;
    this.#failures = { message, count, lookAt: count >= lookAt ? 2 * lookAt : lookAt };
    return count >= lookAt;
  }

  /** Ends the row of equal failures. */
  succeeded(): void {
    this.#failures = NO_FAILURES;
  }

  /** Makes the next sync try again everything that was refused. @returns whether there is anything to try */
  retry(): boolean {
    this.#isRetryDue = this.#servicePorts.size + this.#families.size > 0;
    return this.#isRetryDue;
  }

  /**
   * Ends the quarantine of Services that changed, and of everything when a retry is due. Services that make
   * nft fail wait for the retry, unless they were deleted: their endpoints may change all the time, and each
   * try may delay everyone.
   * @param exists whether there is a Service
   * @returns the service ports whose quarantine ended
   */
  takeRetries(
    changed: ReadonlySet<ServiceName>,
    exists: (service: ServiceName) => boolean,
  ): readonly ServicePortKey[] {
    const isDue = this.#isRetryDue;
    this.#isRetryDue = false;
    if (isDue) this.#families = new Map();
    const isFailing = (reason: string) => reason.startsWith(FAILING);
    const ended = new Map(
      [...this.#servicePorts].filter(([key, reason]) => {
        const service = serviceOf(key);
        return isDue || (changed.has(service) && !(isFailing(reason) && exists(service)));
      }),
    );
    if (ended.size === 0) return [];
    const tried = [...ended].filter(([, reason]) => isFailing(reason));
    this.#probation = new Map([...this.#probation, ...tried]);
    this.#servicePorts = new Map([...this.#servicePorts].filter(([key]) => !ended.has(key)));
    return [...ended.keys()];
  }
}
