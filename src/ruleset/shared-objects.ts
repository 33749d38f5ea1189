import type { Chain } from "../nft/ast/ruleset.ts";
import type { PortTimeouts } from "./connection-timeouts.ts";
import type { DeltaTracker } from "./delta-tracker.ts";
import type { DesiredElement } from "./service-port-rules.ts";

/** The chains, timeouts and elements that service ports share. Each exists while a service port uses it. */
export class SharedObjects {
  readonly #tracker: DeltaTracker;
  /** Number of users of a chain or element besides the first; only for those with several. */
  readonly #otherUsers = new Map<string, number>();

  /** @param tracker the writer of the table */
  constructor(tracker: DeltaTracker) {
    this.#tracker = tracker;
  }

  /** Adds a user of a chain. @param made returns the chain, for the first user */
  addChain(name: string, made: () => Chain): void {
    if (this.#tracker.table.chains.has(name)) this.#addUser(`chain ${name}`);
    else this.#tracker.putChain(made());
  }

  /** Adds a service port with timeouts. */
  addTimeouts({ object, chain }: PortTimeouts): void {
    this.addChain(chain.name, () => {
      this.#tracker.putTimeouts(object);
      return chain;
    });
  }

  /** Removes a service port with timeouts, and their chain and object with the last one. */
  dropTimeouts({ object, chain }: PortTimeouts): void {
    if (this.#dropUser(`chain ${chain.name}`)) return;
    this.#tracker.deleteChain(chain.name);
    this.#tracker.deleteTimeouts(object.name);
  }

  /** Removes a user of a chain, and the chain with the last user. */
  dropChain(name: string): void {
    if (!this.#dropUser(`chain ${name}`)) this.#tracker.deleteChain(name);
  }

  /** Adds a user of an element. */
  addElement({ set, key, value }: DesiredElement): void {
    if (this.#tracker.table.sets.get(set)?.elements.has(key)) this.#addUser(`${set} ${key}`);
    else this.#tracker.putElement(set, key, value);
  }

  /** Removes a user of an element, and the element with the last user. */
  dropElement({ set, key }: DesiredElement): void {
    if (!this.#dropUser(`${set} ${key}`)) this.#tracker.deleteElement(set, key);
  }

  #addUser(name: string): void {
    this.#otherUsers.set(name, (this.#otherUsers.get(name) ?? 0) + 1);
  }

  /** @returns false if there is no other user */
  #dropUser(name: string): boolean {
    const others = this.#otherUsers.get(name);
    if (others === undefined) return false;
    if (others === 1) this.#otherUsers.delete(name);
    else this.#otherUsers.set(name, others - 1);
    return true;
  }
}
