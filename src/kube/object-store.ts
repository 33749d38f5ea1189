import { isDeepStrictEqual } from "node:util";
import type { Clock } from "../base/clock.ts";
import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import { metadataOf } from "./decode/metadata.ts";
import type { ResourceName, SourceHandler, SourceState } from "./source.ts";
import { SourceStatus } from "./source-status.ts";

/** The identity of an object, and its version. */
export interface ObjectIdentity {
  /** `namespace/name`, or `name` for a resource without namespaces. */
  readonly key: string;
  readonly uid: string;
  /** Differs after each change of the object; "" if unknown. */
  readonly version: string;
}

/**
 * A stored object. `object` is undefined if it is invalid or unmanaged; the entry then avoids decoding it
 * again.
 */
interface Entry<T> extends Omit<ObjectIdentity, "key"> {
  readonly object: T | undefined;
}

/** An incomplete list: the entries to be stored once it is complete. */
export type Staged<T> = Map<string, Entry<T>>;

/** Options of an {@link ObjectStore}. */
export interface ObjectStoreOptions<T> {
  readonly resource: ResourceName;
  /**
   * Turns a received object into the stored one, as client-go's TransformFunc does; undefined for an
   * unmanaged object. May throw for an invalid one. In both cases the object counts as absent.
   */
  readonly transform: (object: unknown) => T | undefined;
  readonly handler: SourceHandler<T>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Stores the objects of one resource as last received, and calls the handler for each change of what
 * `transform` returns: whatever else changes in an object costs no work beyond reading it.
 */
export class ObjectStore<T> {
  /** Also counts the objects that `transform` rejected, and the errors of the handler. */
  readonly status: SourceStatus;
  readonly #entries = new Map<string, Entry<T>>();
  #closed = false;
  readonly #options: ObjectStoreOptions<T>;

  constructor(options: ObjectStoreOptions<T>) {
    this.#options = options;
    this.status = new SourceStatus(options.clock);
  }

  /** The handler is not called after this. */
  close(): void {
    this.#closed = true;
  }

  state(): SourceState {
    let valid = 0;
    for (const { object } of this.#entries.values()) if (object !== undefined) valid++;
    return this.status.snapshot(valid);
  }

  /** Stores an object of a watch. Returns false if this version of it was stored already. */
  upsert(raw: unknown): boolean {
    const identity = identify(raw);
    const known = this.#entries.get(identity.key);
    if (isSameVersion(known, identity)) return false;
    this.#put(identity.key, known, this.#makeEntry(identity, raw));
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

  /**
   * Adds an object of a list to `staged`, without a call of the handler. An unchanged object is not
   * transformed again.
   */
  stage(staged: Staged<T>, raw: unknown, identity = identify(raw)): void {
    const known = this.#entries.get(identity.key);
    staged.set(identity.key, isSameVersion(known, identity) ? known : this.#makeEntry(identity, raw));
  }

  /** Whether a list has none of the known objects; false while `key` is unknown, which every cluster has. */
  lacksAll(staged: Staged<T>, key: string): boolean {
    const isKnown = (each: string) => this.#entries.get(each)?.object !== undefined;
    if (!isKnown(key)) return false;
    for (const [each, { object }] of staged) if (object !== undefined && isKnown(each)) return false;
    return true;
  }

  /**
   * Replaces all objects by a complete list. The handler is called for deletions first, because an added
   * object may claim an address of a deleted one, and with `onSynced` last.
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
      if (isDeepStrictEqual(previous, object)) this.#entries.set(key, { ...entry, object: previous });
      else this.#guard(key, (handler) => handler.onUpsert(key, object, previous));
    } else {
      this.#tellDelete(key, known);
      this.#guard(key, (handler) => handler.onUpsert(key, object, undefined));
    }
  }

  #tellDelete(key: string, known: Entry<T> | undefined): void {
    const previous = known?.object;
    if (previous !== undefined) this.#guard(key, (handler) => handler.onDelete(key, previous));
  }

  #makeEntry({ key, uid, version }: ObjectIdentity, raw: unknown): Entry<T> {
    try {
      return { uid, version, object: this.#options.transform(raw) };
    } catch (error) {
      this.#guard(key, (handler) => {
        this.status.countError("invalid-object");
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
      const { resource, logger } = this.#options;
      this.status.countError("handler");
      logger.warn({ resource, key, reason: messageOf(error) }, "an object cannot be used");
    }
  }
}

function isSameVersion<T>(known: Entry<T> | undefined, { uid, version }: ObjectIdentity): known is Entry<T> {
  return known !== undefined && version !== "" && known.version === version && known.uid === uid;
}

function identify(raw: unknown): ObjectIdentity {
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

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}
