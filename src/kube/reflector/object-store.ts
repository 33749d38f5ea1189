import type { SourceErrorKind, SourceHandler } from "../source.ts";

/** What is kept of an object. `object` is absent when it is invalid or not ours, so that it is looked at once only. */
interface Entry<T> {
  readonly uid: string;
  readonly version: string;
  readonly object: T | undefined;
}

/** A list in the making: what will be there when it is complete. */
export type Staged<T> = Map<string, Entry<T>>;

/** What an {@link ObjectStore} needs. */
export interface ObjectStoreOptions<T> {
  /**
   * Makes of an API object what is kept of it, undefined if it is none of ours. May throw when it cannot be used. Either
   * way the object counts as absent.
   */
  readonly slim: (object: unknown) => T | undefined;
  readonly handler: SourceHandler<T>;
  /** Told of each object that `slim` refused, and of each time that the handler threw. */
  readonly onFault: (kind: SourceErrorKind, key: string, error: unknown) => void;
}

/** The objects of one resource as last heard, and the events that their changes mean. */
export class ObjectStore<T> {
  readonly #entries: Staged<T> = new Map();
  #closed = false;
  readonly #options: ObjectStoreOptions<T>;

  constructor(options: ObjectStoreOptions<T>) {
    this.#options = options;
  }

  /** Nobody is told of anything after this. */
  close(): void {
    this.#closed = true;
  }

  /** How many valid objects there are. */
  get size(): number {
    let count = 0;
    for (const entry of this.#entries.values()) count += entry.object === undefined ? 0 : 1;
    return count;
  }

  /** Takes an object from a watch. False if it was known in this version already. */
  upsert(raw: unknown): boolean {
    const { key, uid, version } = identify(raw);
    const known = this.#entries.get(key);
    if (isSame(known, uid, version)) return false;
    this.#put(key, known, this.#makeEntry(key, uid, version, raw));
    return true;
  }

  /** Takes an object's deletion from a watch. False if it was not known. */
  remove(raw: unknown): boolean {
    const { key } = identify(raw);
    const known = this.#entries.get(key);
    this.#entries.delete(key);
    this.#tellDelete(key, known);
    return known !== undefined;
  }

  /** Takes an object from a list; nobody is told until {@link replace}. An unchanged object is not slimmed again. */
  stage(staged: Staged<T>, raw: unknown): void {
    const { key, uid, version } = identify(raw);
    const known = this.#entries.get(key);
    staged.set(key, isSame(known, uid, version) ? known : this.#makeEntry(key, uid, version, raw));
  }

  /**
   * Makes a complete list the truth. Deletions are told first (what is added may want what the deleted objects had),
   * `onSynced` last.
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
      return { uid, version, object: this.#options.slim(raw) };
    } catch (error) {
      this.#guard(key, (handler) => {
        this.#options.onFault("invalid-object", key, error);
        handler.onInvalid(key, error);
      });
      return { uid, version, object: undefined };
    }
  }

  /** A consumer's fault with one object must not cost the others their events. */
  #guard(key: string, call: (handler: SourceHandler<T>) => void): void {
    if (this.#closed) return;
    try {
      call(this.#options.handler);
    } catch (error) {
      this.#options.onFault("handler", key, error);
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
    key: namespace === "" ? name : `${namespace}/${name}`,
    uid: text(metadata.uid),
    version: text(metadata.resourceVersion),
  };
}

/** The `metadata` of an API object or list, {} if it has none. */
export function metadataOf(raw: unknown): Readonly<Record<string, unknown>> {
  const metadata = typeof raw === "object" && raw !== null && "metadata" in raw ? raw.metadata : undefined;
  return typeof metadata === "object" && metadata !== null ? (metadata as Record<string, unknown>) : {};
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
