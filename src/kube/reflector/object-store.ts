import type { SourceErrorKind, SourceHandler } from "../source.ts";

/** A stored object. `object` is undefined if it is invalid or unmanaged; the entry then avoids decoding it again. */
interface Entry<T> {
  readonly uid: string;
  readonly version: string;
  readonly object: T | undefined;
}

/** An incomplete list: the entries to be stored once it is complete. */
export type Staged<T> = Map<string, Entry<T>>;

/** Options of an {@link ObjectStore}. */
export interface ObjectStoreOptions<T> {
  /**
   * Turns an API object into the stored one, as client-go's TransformFunc does; undefined for an unmanaged object.
   * May throw for an invalid one. In both cases the object counts as absent.
   */
  readonly transform: (object: unknown) => T | undefined;
  readonly handler: SourceHandler<T>;
  /** Called for each object that `transform` rejected, and each time that the handler threw. */
  readonly onError: (kind: SourceErrorKind, key: string, error: unknown) => void;
}

/** Stores the objects of one resource as last received, and calls the handler for each change. */
export class ObjectStore<T> {
  readonly #entries: Staged<T> = new Map();
  #closed = false;
  readonly #options: ObjectStoreOptions<T>;

  constructor(options: ObjectStoreOptions<T>) {
    this.#options = options;
  }

  /** The handler is not called after this. */
  close(): void {
    this.#closed = true;
  }

  /** The number of valid objects. */
  get size(): number {
    let count = 0;
    for (const entry of this.#entries.values()) count += entry.object === undefined ? 0 : 1;
    return count;
  }

  /** Stores an object of a watch. Returns false if this version of it was stored already. */
  upsert(raw: unknown): boolean {
    const { key, uid, version } = identify(raw);
    const known = this.#entries.get(key);
    if (isSame(known, uid, version)) return false;
    this.#put(key, known, this.#makeEntry(key, uid, version, raw));
    return true;
  }

  /** Deletes an object by a watch's event. Returns false if it was not stored. */
  remove(raw: unknown): boolean {
    const { key } = identify(raw);
    const known = this.#entries.get(key);
    this.#entries.delete(key);
    this.#tellDelete(key, known);
    return known !== undefined;
  }

  /** Adds an object of a list to `staged`, without a call of the handler. An unchanged object is not transformed again. */
  stage(staged: Staged<T>, raw: unknown): void {
    const { key, uid, version } = identify(raw);
    const known = this.#entries.get(key);
    staged.set(key, isSame(known, uid, version) ? known : this.#makeEntry(key, uid, version, raw));
  }

  /**
   * Replaces all objects by a complete list. The handler is called for deletions first, because an added object may claim
   * an address of a deleted one, and with `onSynced` last.
   */
  replace(staged: Staged<T>): void {
    for (const [key, entry] of this.#entries) {
      if (!staged.has(key)) {
        this.#entries.delete(key);
        this.#tellDelete(key, entry);
      }
    }
    for (const [key, entry] of staged) {
      const known = this.#entries.get(key);
      if (known !== entry) this.#put(key, known, entry);
    }
    this.#guard("", (handler) => handler.onSynced());
  }

  #put(key: string, known: Entry<T> | undefined, entry: Entry<T>): void {
    this.#entries.set(key, entry);
    const { object } = entry;
    if (object === undefined) {
      this.#tellDelete(key, known);
    } else if (known?.object !== undefined && known.uid === entry.uid) {
      const previous = known.object;
      this.#guard(key, (handler) => handler.onUpsert(key, object, previous));
    } else {
      this.#tellDelete(key, known);
      this.#guard(key, (handler) => handler.onUpsert(key, object, undefined));
    }
  }

  #tellDelete(key: string, known: Entry<T> | undefined): void {
    const previous = known?.object;
    if (previous !== undefined) this.#guard(key, (handler) => handler.onDelete(key, previous));
  }

  #makeEntry(key: string, uid: string, version: string, raw: unknown): Entry<T> {
    try {
      return { uid, version, object: this.#options.transform(raw) };
    } catch (error) {
      this.#guard(key, (handler) => {
        this.#options.onError("invalid-object", key, error);
        handler.onInvalid(key, error);
      });
      return { uid, version, object: undefined };
    }
  }

  /** An error of the handler for one object must not suppress the events of the others. */
  #guard(key: string, call: (handler: SourceHandler<T>) => void): void {
    if (this.#closed) return;
    try {
      call(this.#options.handler);
    } catch (error) {
      this.#options.onError("handler", key, error);
    }
  }
}

function isSame<T>(known: Entry<T> | undefined, uid: string, version: string): known is Entry<T> {
  return known !== undefined && version !== "" && known.version === version && known.uid === uid;
}

function identify(raw: unknown): { key: string; uid: string; version: string } {
  const metadata = metadataOf(raw);
  const name = text(metadata.name);
  const namespace = text(metadata.namespace);
  return {
    // join() makes one flat string; V8 keeps a template as a tree of its parts.
    key: namespace === "" ? name : [namespace, name].join("/"),
    uid: text(metadata.uid),
    version: text(metadata.resourceVersion),
  };
}

/** Returns the `metadata` of an API object or list, {} if it has none. */
export function metadataOf(raw: unknown): Readonly<Record<string, unknown>> {
  const metadata = typeof raw === "object" && raw !== null && "metadata" in raw ? raw.metadata : undefined;
  return typeof metadata === "object" && metadata !== null ? (metadata as Record<string, unknown>) : {};
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
