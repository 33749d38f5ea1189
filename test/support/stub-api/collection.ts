import type { OpenWatch, WireEvent } from "./open-watch.ts";
import { isSelected, keyOf, type Selectors, type StubObject } from "./selectors.ts";

/** A change of an object. */
interface Change {
  readonly version: number;
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly object: StubObject;
  readonly previous: StubObject | undefined;
}

/** The objects of one resource, their history, and the open watches. */
export class Collection {
  readonly objects = new Map<string, StubObject>();
  readonly watches = new Set<OpenWatch>();
  readonly #type: { readonly apiVersion: string; readonly kind: string };
  #history: Change[] = [];
  /** The oldest version of the history. A watch from an older version gets 410. */
  #compacted = 0;

  constructor(type: { readonly apiVersion: string; readonly kind: string }) {
    this.#type = type;
  }

  /** Returns the objects for a list or watch with these selectors. */
  selected(selectors: Selectors): StubObject[] {
    return [...this.objects.values()].filter((object) => isSelected(object, selectors));
  }

  /** Adds or changes an object, and sends this to the watches. */
  put(object: StubObject, version: number): void {
    const previous = this.objects.get(keyOf(object));
    this.objects.set(keyOf(object), object);
    this.#change({ version, type: previous === undefined ? "ADDED" : "MODIFIED", object, previous });
  }

  /** Deletes an object, and sends this to the watches. */
  remove(object: StubObject, version: number): void {
    const previous = this.objects.get(keyOf(object)) ?? object;
    this.objects.delete(keyOf(object));
    this.#change({ version, type: "DELETED", object, previous });
  }

  /** Discards the history up to `version`. */
  compact(version: number): void {
    this.#compacted = version;
    this.#history = this.#history.filter((change) => change.version > version);
  }

  /** Returns true if the history no longer goes back to `version`. */
  isCompacted(version: number): boolean {
    return version < this.#compacted;
  }

  /** Sends a watch the changes since `version`, and all later ones. */
  subscribe(watch: OpenWatch, version: number): void {
    for (const change of this.#history) {
      if (change.version > version) this.#tell(watch, change);
    }
    this.watches.add(watch);
  }

  /** Sends a bookmark to all watches. */
  bookmark(version: number): void {
    for (const watch of this.watches) {
      watch.send({
        type: "BOOKMARK",
        object: { ...this.#type, metadata: { resourceVersion: String(version) } },
      });
    }
  }

  #change(change: Change): void {
    this.#history.push(change);
    for (const watch of this.watches) this.#tell(watch, change);
  }

  /** If an object begins or ceases to match a watch's selectors, it is sent as added or deleted. */
  #tell(watch: OpenWatch, { type, object, previous }: Change): void {
    const before = previous !== undefined && isSelected(previous, watch.selectors);
    const after = type !== "DELETED" && isSelected(object, watch.selectors);
    if (!before && !after) return;
    const seen: WireEvent["type"] = after ? (before ? "MODIFIED" : "ADDED") : "DELETED";
    watch.send({ type: seen, object: { ...this.#type, ...object } });
  }
}
