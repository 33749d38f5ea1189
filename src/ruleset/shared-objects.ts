import { addToCount } from "../base/group-by.ts";
import type { DeltaTracker } from "./delta-tracker.ts";
import type { DesiredElement, PortPart } from "./node-context.ts";

/** The chains, objects and elements that service ports share. Each exists while a service port uses it. */
export class SharedObjects {
  readonly #tracker: DeltaTracker;
  /** Number of users of a chain or element besides the first; only for those with several. */
  readonly #otherUsers = new Map<string, number>();

  /** @param tracker the writer of the table */
  constructor(tracker: DeltaTracker) {
    this.#tracker = tracker;
  }

  /** Adds a service port that wants a part of a feature. */
  addPart({ chain, object }: PortPart): void {
    if (this.#tracker.table.chains.has(chain.name)) {
      addToCount(this.#otherUsers, `chain ${chain.name}`, 1);
      return;
    }
    if (object !== undefined) this.#tracker.putTimeouts(object);
    this.#tracker.putChain(chain);
  }

  /** Removes such a service port, and the chain and object with the last one. */
  dropPart({ chain, object }: PortPart): void {
    if (this.#dropUser(`chain ${chain.name}`)) return;
    this.#tracker.deleteChain(chain.name);
    if (object !== undefined) this.#tracker.deleteTimeouts(object.name);
  }

  /** Adds a user of an element. */
  addElement({ set, key, value }: DesiredElement): void {
    if (this.#tracker.table.sets.get(set)?.elements.has(key))
      addToCount(this.#otherUsers, `${set} ${key}`, 1);
    else this.#tracker.setElement(set, key, value);
  }

  /** Removes a user of an element, and the element with the last user. */
  dropElement({ set, key }: DesiredElement): void {
    if (!this.#dropUser(`${set} ${key}`)) this.#tracker.deleteElement(set, key);
  }

  /** Does {@link SharedObjects.dropElement} in later updates, in steps that delete an element each. */
  *dropping(elements: Iterable<DesiredElement>): Generator<undefined> {
    for (const { set, key } of elements) {
      if (this.#dropUser(`${set} ${key}`)) continue;
      this.#tracker.deleteElement(set, key, 0);
      yield;
    }
  }

  /** @returns false if there is no other user */
  #dropUser(name: string): boolean {
    const hasOthers = this.#otherUsers.has(name);
    if (hasOthers) addToCount(this.#otherUsers, name, -1);
    return hasOthers;
  }
}
