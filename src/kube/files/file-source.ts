import { stat } from "node:fs/promises";
import type { Clock, Timer } from "../../base/clock.ts";
import { AppError, badArgument, messageOf } from "../../base/errors.ts";
import { FailureLog } from "../../base/failure-log.ts";
import type { Logger } from "../../base/logger.ts";
import type { EnabledFeatures } from "../../model/features.ts";
import { ObjectProblemLog } from "../object-problem-log.ts";
import { ObjectStore, type Staged } from "../object-store.ts";
import {
  type AnyObject,
  byResource,
  type ObjectSource,
  type ResourceName,
  type SourceHandler,
  type SourceHandlers,
  type SourceState,
} from "../source.ts";
import { type Diagnostic, refuseNoObjects } from "./diagnostic.ts";
import { listFiles } from "./list-files.ts";
import type { FilesResult, FromFile } from "./object-gatherer.ts";
import { NO_INPUT, readFiles } from "./read-files.ts";

/** Options of a {@link FileSource}. */
export interface FileSourceOptions {
  /** Files and directories, as for `--from`; not standard input, which cannot be read again. */
  readonly paths: readonly string[];
  readonly handlers: SourceHandlers;
  readonly clock: Clock;
  readonly logger: Logger;
  /** All if absent. */
  readonly features?: EnabledFeatures | undefined;
}

/** Time between two checks of the files. Milliseconds. */
const PERIOD = 1000;

/** Time until unchanged malformed files are read again. Parsing large ones takes seconds. Milliseconds. */
const RETRY_PERIOD = 30_000;

/**
 * Reads objects from files, and reads them again when they change, also when a ConfigMap's symbolic links are
 * replaced. A pipe is read once.
 */
export class FileSource implements ObjectSource {
  readonly #options: FileSourceOptions;
  readonly #stores: Readonly<Record<ResourceName, ObjectStore<AnyObject>>>;
  /** The files as they were last delivered. */
  #fingerprint: string | undefined;
  /**
   * The last attempt to read the files; `due` is when they are read again without a change, by the monotonic
   * clock.
   */
  #attempt = { fingerprint: "", due: 0 };
  #timer: Timer | undefined;
  #stopped = false;
  readonly #failures: FailureLog;
  readonly #problems: ObjectProblemLog;
  /** The keys of the diagnostics of the last files. */
  #reported: readonly string[] = [];

  /** @throws AppError BAD_ARGUMENT when standard input is among the paths */
  constructor(options: FileSourceOptions) {
    if (options.paths.includes("-"))
      throw badArgument("standard input cannot be watched for changes", {
        hint: "name files or directories",
      });
    this.#options = options;
    this.#failures = new FailureLog(options, "read the objects", ": the last known objects stay in use");
    const { handlers, clock, logger } = options;
    this.#problems = new ObjectProblemLog(clock, logger, "invalid object, or a part of it, is ignored");
    const transform = (object: unknown) => object as AnyObject;
    this.#stores = byResource((resource) => {
      const handler: SourceHandler<AnyObject> = handlers[resource];
      return new ObjectStore({ resource, transform, handler, clock, logger });
    });
  }

  start(): void {
    void this.#check();
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  states(): Readonly<Record<ResourceName, SourceState>> {
    return byResource((name) => this.#stores[name].state());
  }

  async #check(): Promise<void> {
    try {
      const fingerprint = await fingerprintOf(this.#options.paths);
      if (fingerprint === this.#fingerprint) this.#clearFailure();
      else if (this.#isDue(fingerprint)) await this.#read(fingerprint);
    } catch (error) {
      this.#failed(error);
    }
    if (!this.#stopped) this.#timer = this.#options.clock.after(PERIOD, () => void this.#check());
  }

  /** Returns true if the files changed since the last attempt, or if that was more than 30 s ago. */
  #isDue(fingerprint: string): boolean {
    const now = this.#options.clock.monotonic();
    if (fingerprint === this.#attempt.fingerprint && now < this.#attempt.due) return false;
    this.#attempt = { fingerprint, due: now + RETRY_PERIOD };
    return true;
  }

  async #read(fingerprint: string): Promise<void> {
    const { paths, features } = this.#options;
    const result = await readFiles(paths, NO_INPUT, { features });
    const { services, endpointSlices, serviceCIDRs } = result.objects;
    refuseNoObjects(services.length + endpointSlices.length + serviceCIDRs.length);
    // A YAML list that ends too early may be valid: it would remove the rules of all objects that follow.
    if ((await fingerprintOf(paths)) !== fingerprint)
      throw new AppError("UNREADABLE_INPUT", "the files changed while they were read");
    this.#fingerprint = fingerprint;
    if (!this.#stopped) this.#take(result);
  }

  /** Records that the files are readable again, with the content that was read before. */
  #clearFailure(): void {
    if (!this.#failures.isFailing) return;
    this.#failures.end();
    for (const { status } of Object.values(this.#stores)) status.followed();
  }

  /** Keeps the objects read before: the files may be half written, and are read again when they change. */
  #failed(error: unknown): void {
    const failure = messageOf(error);
    this.#failures.add(failure);
    for (const { status } of Object.values(this.#stores)) status.failed("parse", failure);
  }

  /** Logs the diagnostics that the last files did not have. */
  #report(diagnostics: readonly Diagnostic[]): void {
    const found = new Map(diagnostics.map((one) => [problemKey(one), one]));
    for (const key of this.#reported) if (!found.has(key)) this.#problems.end(key);
    for (const [key, one] of found) this.#problems.add(key, one.reason, { ...one });
    this.#reported = [...found.keys()];
  }

  #take({ objects, diagnostics }: FilesResult): void {
    this.#failures.end();
    this.#report(diagnostics);
    const { services, endpointSlices, nodes, serviceCIDRs } = objects;
    deliver(this.#stores.nodes, nodes, ({ name }) => name);
    deliver(this.#stores.servicecidrs, serviceCIDRs, ({ name }) => name);
    deliver(this.#stores.endpointslices, endpointSlices, ({ namespace, name }) => `${namespace}/${name}`);
    deliver(this.#stores.services, services, ({ name }) => name);
  }
}

/** The object comes first, because {@link ObjectProblemLog} reads the namespace from it. */
function problemKey({ object, file, path, reason }: Diagnostic): string {
  return `${object ?? file} ${path} ${reason}`;
}

/** Replaces the objects, which calls the handler for each difference. */
function deliver<T extends AnyObject>(
  store: ObjectStore<AnyObject>,
  located: readonly FromFile<T>[],
  keyOf: (object: T) => string,
): void {
  const staged: Staged<AnyObject> = new Map();
  for (const { value } of located) {
    store.stage(staged, value, { key: keyOf(value), uid: value.uid, version: JSON.stringify(value) });
  }
  store.status.listed();
  store.status.followed();
  store.replace(staged);
}

/**
 * Returns a text that changes whenever a file does: the names, inodes, sizes and times of all files, of pipes
 * their names. The change time is included because a file may be replaced by an older one of the same size
 * (`cp -p`, rsync).
 */
async function fingerprintOf(paths: readonly string[]): Promise<string> {
  const { files } = await listFiles(paths);
  const marks = files.map(async (file) => {
    const found = await stat(file);
    return found.isFile() ? `${file} ${found.ino} ${found.size} ${found.mtimeMs} ${found.ctimeMs}` : file;
  });
  return (await Promise.all(marks)).join("\n");
}
