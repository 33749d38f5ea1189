import type { ApiClient } from "../../src/kube/client/client.ts";
import { Availability } from "../../src/kube/reflector/availability.ts";
import { FirstState } from "../../src/kube/reflector/list.ts";
import { Reflector } from "../../src/kube/reflector/reflector.ts";
import { resources } from "../../src/kube/reflector/resources.ts";
import type { ResourceName, SourceHandler } from "../../src/kube/source.ts";
import { ManualClock } from "./manual-clock.ts";
import { memoryLogger } from "./memory-logger.ts";
import { isSelected, keyOf, type StubObject } from "./stub-api/selectors.ts";
import type { StubApi } from "./stub-api/stub-api.ts";
import { stubClient } from "./stub-api/stub-client.ts";

/**
 * The longest wait that passes by itself, which is the maximum of the back-off. Deadlines are longer, and
 * pass only when a test moves the clock.
 */
const LONGEST_WAIT = 30_800;

/** A clock on which back-off passes at once, so that attempts follow each other without a pause. */
class BackoffClock extends ManualClock {
  /** All waits so far, milliseconds. */
  readonly waits: number[] = [];

  override after(milliseconds: number, callback: () => void) {
    if (milliseconds <= LONGEST_WAIT) {
      this.waits.push(milliseconds);
      setImmediate(() => this.advance(milliseconds));
    }
    return super.after(milliseconds, callback);
  }
}

/** The identity of an object in the reflector's calls. */
export interface Kept {
  readonly uid: string;
  readonly version: string;
}

/** Options of a {@link Follower}. */
export interface FollowerOptions {
  readonly resource?: ResourceName;
  /** Called for every call of the handler, after it was recorded. May throw. */
  readonly onCall?: (call: string) => void;
  readonly transform?: (object: StubObject) => Kept;
  readonly token?: () => string;
  readonly hasRules?: boolean;
}

/** A reflector that follows one resource of a stub API server, and the calls of its handler. */
export class Follower {
  readonly api: StubApi;
  readonly clock = new BackoffClock(Date.UTC(2026, 10, 20));
  readonly logger = memoryLogger();
  readonly availability = new Availability(
    this.clock,
    () => 0.5,
    () => 0,
  );
  /** The calls of the handler: `+key`, `~key` (changed), `-key`, `!key` (invalid), `synced`. */
  readonly calls: string[] = [];
  /** The objects that result from the calls. */
  readonly objects = new Map<string, Kept>();
  /** The resources that had an implausible list. */
  readonly implausible: ResourceName[] = [];
  /** Calls that a handler must never receive. */
  readonly violations: string[] = [];
  readonly reflector: Reflector<Kept>;
  readonly #resource: ResourceName;
  readonly #client: ApiClient;

  constructor(api: StubApi, options: FollowerOptions = {}) {
    this.api = api;
    this.#resource = options.resource ?? "services";
    this.#client = stubClient(api, options.token);
    this.reflector = new Reflector<Kept>({
      client: this.#client,
      resource: resources("node-1")[this.#resource],
      transform: (object) => (options.transform ?? keep)(object as StubObject),
      handler: this.#handler(options.onCall ?? (() => {})),
      clock: this.clock,
      random: () => 0.5,
      logger: this.logger,
      availability: this.availability,
      firstState: new FirstState(),
      hasRules: options.hasRules ?? false,
      onImplausible: (resource) => this.implausible.push(resource),
    });
  }

  /** Starts the reflector, and returns this follower. */
  start(): this {
    this.reflector.start();
    return this;
  }

  /** Ends the reflector. */
  stop(): void {
    this.reflector.stop();
    this.#client.close();
  }

  /** Waits until `condition` holds; the test's own timeout is the limit. */
  async until(condition: () => boolean): Promise<void> {
    while (!condition()) await new Promise((resolve) => setImmediate(resolve));
  }

  /** Waits until the objects equal those of the server, and a watch is open. */
  async untilEqual(): Promise<void> {
    const isWatching = () => this.api.cluster.watches(this.#resource).length > 0;
    await this.until(() => this.isEqual() && isWatching() && this.reflector.state().failure === "");
  }

  /** Returns true if the objects equal those of the server now. */
  isEqual(): boolean {
    const { selectors } = resources("node-1")[this.#resource];
    const expected = this.api.cluster
      .objects(this.#resource)
      .filter((object) => isSelected(object, { labelSelector: "", fieldSelector: "", ...selectors }));
    return (
      expected.length === this.objects.size &&
      expected.every((object) => {
        const mine = this.objects.get(keyOf(object));
        return mine?.uid === object.metadata.uid && mine?.version === object.metadata.resourceVersion;
      })
    );
  }

  #expect(holds: boolean, violation: string): void {
    if (!holds) this.violations.push(violation);
  }

  #handler(onCall: (call: string) => void): SourceHandler<Kept> {
    const note = (call: string) => {
      this.calls.push(call);
      onCall(call);
    };
    return {
      onUpsert: (key, object, previous) => {
        this.#expect(this.objects.get(key) === previous, `the previous ${key} is not what was given before`);
        this.#expect(previous === undefined || previous.uid === object.uid, `${key} changed its uid`);
        this.objects.set(key, object);
        note(`${previous === undefined ? "+" : "~"}${key}`);
      },
      onDelete: (key, previous) => {
        this.#expect(this.objects.get(key) === previous, `the deleted ${key} is not what was given before`);
        this.objects.delete(key);
        note(`-${key}`);
      },
      onInvalid: (key) => note(`!${key}`),
      onSynced: () => note("synced"),
    };
  }
}

/** Returns the identity of an object. */
export function keep({ metadata }: StubObject): Kept {
  return { uid: metadata.uid ?? "", version: metadata.resourceVersion ?? "" };
}

/** Returns a small Service. */
export function tinyService(name: string, labels: Readonly<Record<string, string>> = {}): StubObject {
  return { metadata: { namespace: "shop", name, labels }, spec: { note: "é".repeat(3) } };
}
