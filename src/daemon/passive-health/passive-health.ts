import type { Clock } from "../../base/clock.ts";
import { FailureLog } from "../../base/failure-log.ts";
import { type ByFamily, byFamily, FAMILIES, type Family } from "../../base/family.ts";
import type { Logger } from "../../base/logger.ts";
import { NamespaceLoggers } from "../../base/namespace-loggers.ts";
import { PeriodicTask } from "../../base/periodic-task.ts";
import { listText } from "../../base/text.ts";
import type { TableReader } from "../../kernel/table-reader.ts";
import { namespaceOf, type ServiceName, serviceName } from "../../model/ids.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import { type EjectedEndpoint, mostEjected, unansweredText } from "../../model/passive-health.ts";
import { splitParts, targetText } from "../../nft/elements.ts";
import type { NodeContext } from "../../ruleset/node-context.ts";
import { mayProbe } from "../../ruleset/passive-health.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import { ANSWERS, ATTEMPTS, RESETS, type WatchSetName } from "../../ruleset/sets.ts";
import type { SyncReport, SyncSubscriber } from "../../sync/sync-report.ts";
import { loggedReading } from "../readings/logged-reading.ts";
import { Ejections } from "./ejections.ts";
import type { Probe } from "./probe.ts";
import { answered, type EndpointCounts, type Observation, observe, unanswered } from "./suspicion.ts";
import { WatchedEndpoints, type WatchedPort } from "./watched-endpoints.ts";

/** Parts of {@link PassiveHealth}. */
export interface PassiveHealthParts {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly tables: TableReader;
  readonly cache: ObjectCache;
  readonly state: () => RulesetState;
  readonly nodeContext: () => NodeContext;
  readonly probe: Probe;
  /** Requests a sync. */
  readonly request: () => void;
  /** Called when endpoints have left the kernel's lists because they were ejected. */
  readonly onLeft: (endpoints: readonly EjectedEndpoint[]) => unknown;
  readonly onEjected: (endpoint: EjectedEndpoint) => void;
}

/**
 * Minimum time between two readings of the counters, milliseconds, and its minimum ratio to the time of a
 * reading.
 */
const SHORTEST_PAUSE = 1000;
const PAUSE_RATIO = 10;

/**
 * Maximum number of endpoints that are probed simultaneously, in total and of one namespace. The others wait.
 */
const MOST_PROBED = 32;
const MOST_PROBED_OF_NAMESPACE = 8;

interface Watched {
  observation: Observation;
  /** When it was last probed, on the monotonic clock. */
  probedAt: number;
  /** The same time, unless the endpoint has returned to the lists since. */
  keptSince: number;
}

/** An endpoint that the kernel's lists may still have. */
interface Leaving {
  readonly endpoint: EjectedEndpoint;
  /** When it was ejected, on the monotonic clock. */
  readonly since: number;
}

/**
 * Watches whether endpoints answer new connections, by the kernel's counters. If one answers none, the daemon
 * probes it by connecting to it. If that fails, too, it leaves this node's lists until it answers.
 */
export class PassiveHealth implements SyncSubscriber {
  readonly #parts: PassiveHealthParts;
  readonly #watched = new WatchedEndpoints();
  readonly #known: ByFamily<Map<string, Watched>> = byFamily(() => new Map());
  readonly #ejections = new Ejections();
  /** The endpoints that are being probed, each with the namespace of the Service for which it is probed. */
  readonly #probing = new Map<string, string>();
  /** Ejected endpoints that the kernel's lists may still have. */
  #leaving: Leaving[] = [];
  /** The new connections to each Service, since this process began to watch it. */
  readonly #connections = new Map<ServiceName, EndpointCounts>();
  readonly #failures: FailureLog;
  readonly #loggers: NamespaceLoggers;
  #task: PeriodicTask | undefined;
  #isStopped = false;

  constructor(parts: PassiveHealthParts) {
    this.#parts = parts;
    this.#loggers = new NamespaceLoggers(parts.clock, parts.logger);
    this.#failures = new FailureLog(
      parts,
      "cannot read the counters of watched endpoints: none is ejected",
      "the counters of watched endpoints can be read again",
    );
  }

  /** The ejected endpoints of both families, in the order of ejection. */
  get ejected(): EjectedEndpoint[] {
    return this.#ejections.all();
  }

  /** The number of watched endpoints. */
  get watchedCount(): number {
    return FAMILIES.reduce((sum, family) => sum + this.#watched.of(family).size, 0);
  }

  /** The new connections to each Service that is watched, since this process began to watch it. */
  get connections(): ReadonlyMap<ServiceName, EndpointCounts> {
    return this.#connections;
  }

  /**
   * Watches the endpoints that the sync rendered. The state of an endpoint that left all lists is deleted, so
   * that it is served immediately when it returns.
   */
  synced(report: Pick<SyncReport, "rendered" | "waiting" | "nodeContext" | "startedMonotonic">): void {
    this.#watched.update(this.#parts.cache, this.#parts.state(), report);
    const isLeaving = ({ endpoint, since }: Leaving) =>
      since > report.startedMonotonic || endpoint.services.some((name) => report.waiting.has(name));
    const left = this.#leaving.filter((one) => !isLeaving(one));
    this.#leaving = this.#leaving.filter(isLeaving);
    if (left.length > 0) this.#parts.onLeft(left.map(({ endpoint }) => endpoint));
    this.#adopt();
    for (const { family, target } of this.#ejections.all())
      if (!this.#watched.of(family).has(target)) this.#return(family, target);
    for (const family of FAMILIES)
      for (const target of this.#known[family].keys())
        if (!this.#watched.of(family).has(target)) this.#known[family].delete(target);
    for (const name of this.#connections.keys())
      if (!this.#watched.hasService(name)) this.#connections.delete(name);
    if (this.watchedCount === 0 || this.#isStopped) {
      this.#task?.stop();
      this.#task = undefined;
    } else {
      const pause = (took: number) => Math.max(SHORTEST_PAUSE, PAUSE_RATIO * took);
      this.#task ??= new PeriodicTask(this.#parts.clock, pause, () => this.look());
    }
  }

  /** Adopts endpoints that an earlier process ejected: they are probed immediately. */
  #adopt(): void {
    const { cache, clock, logger } = this.#parts;
    let adopted = 0;
    for (const family of FAMILIES) {
      for (const target of cache.ejected[family]) {
        if (this.#ejections.has(target)) continue;
        const [port] = this.#watched.portsOf(family, target);
        const pauseMs = port?.check.ejectMs ?? 0;
        const endpoint = { family, target, services: this.#servicesOf(family, target), at: clock.now() };
        this.#ejections.add({ ...endpoint, attempts: 0, resets: 0 }, clock.monotonic() - pauseMs, pauseMs);
        adopted += 1;
      }
    }
    if (adopted > 0) logger.info({ endpoints: adopted }, "trying endpoints that an earlier process ejected");
  }

  /** The Services that have an endpoint, sorted. */
  #servicesOf(family: Family, target: string): ServiceName[] {
    return [...new Set(this.#watched.portsOf(family, target).map(({ service }) => service))].sort();
  }

  /** Stops watching. The results of running connects are ignored. */
  stop(): void {
    this.#isStopped = true;
    this.#task?.stop();
  }

  /** Reads the counters once, then probes endpoints that do not answer. Never rejects. */
  async look(): Promise<void> {
    await loggedReading(this.#failures, async () => {
      for (const family of FAMILIES) await this.#lookAt(family);
      this.#probeSome();
    });
  }

  async #lookAt(family: Family): Promise<void> {
    const targets = this.#watched.of(family);
    if (targets.size === 0) return;
    // Reads attempts first, so that a connection answered between the readings does not look unanswered.
    const attempts = await this.#read(family, ATTEMPTS);
    const resets = await this.#read(family, RESETS);
    const answers = await this.#read(family, ANSWERS);
    for (const [target, count] of attempts) {
      if (!targets.has(target)) continue;
      const counts = { attempts: count, answers: answers.get(target) ?? 0, resets: resets.get(target) ?? 0 };
      this.#observe(family, target, counts);
    }
  }

  #observe(family: Family, target: string, counts: EndpointCounts): void {
    const known = this.#known[family].get(target);
    const observation = observe(known?.observation, counts);
    if (known === undefined) {
      const never = Number.NEGATIVE_INFINITY;
      this.#known[family].set(target, { observation, probedAt: never, keptSince: never });
      return;
    }
    const { last } = known.observation;
    known.observation = observation;
    if (counts.attempts === last.attempts && counts.answers === last.answers) return;
    for (const service of this.#servicesOf(family, target)) {
      const sum = this.#connections.get(service) ?? { attempts: 0, answers: 0, resets: 0 };
      const added = (of: keyof EndpointCounts) => sum[of] + Math.max(0, counts[of] - last[of]);
      this.#connections.set(service, {
        attempts: added("attempts"),
        answers: added("answers"),
        resets: added("resets"),
      });
    }
  }

  async #read(family: Family, set: WatchSetName): Promise<ReadonlyMap<string, number>> {
    const spec = this.#parts.state().families[family]?.table.sets.get(set)?.spec;
    const counts = new Map<string, number>();
    if (spec === undefined) return counts;
    for await (const batch of this.#parts.tables.elements(family, spec))
      for (const { key, packets = 0 } of batch) counts.set(key, packets);
    return counts;
  }

  /** Probes suspects and ejected endpoints whose pause is over, as many as may be probed simultaneously. */
  #probeSome(): void {
    const now = this.#parts.clock.monotonic();
    for (const { family, target } of inTurn(this.#ejections.due(now), this.#suspects(now))) {
      if (this.#probing.size >= MOST_PROBED) return;
      const [port] = this.#watched.portsOf(family, target);
      if (port === undefined || this.#probing.has(target)) continue;
      const namespace = namespaceOf(port.service);
      const ofNamespace = [...this.#probing.values()].filter((one) => one === namespace);
      if (ofNamespace.length < MOST_PROBED_OF_NAMESPACE) void this.#probe(family, target, port);
    }
  }

  /**
   * The endpoints that answered none of a sufficient number of new connections, and that may be ejected.
   * Those that were probed longest ago come first, so that one tenant's suspects do not keep another's from
   * being probed.
   */
  #suspects(now: number): { readonly family: Family; readonly target: string }[] {
    const nodeContext = this.#parts.nodeContext();
    // All endpoints of a service port ask for it, and it counts all of them.
    const judged = new Map<WatchedPort, boolean>();
    const mayEject = (port: WatchedPort) => {
      const may = judged.get(port) ?? this.#mayEject(port);
      judged.set(port, may);
      return may;
    };
    const found = FAMILIES.flatMap((family) =>
      [...this.#known[family]].flatMap(([target, known]) => {
        const { attempts } = unanswered(known.observation);
        if (attempts === 0 || this.#ejections.has(target)) return [];
        const ports = this.#watched.portsOf(family, target).filter((port) => {
          const { failures, intervalMs, ejectMs } = port.check;
          const isDue = now - known.probedAt >= intervalMs && now - known.keptSince >= ejectMs;
          return isDue && attempts >= failures && mayEject(port);
        });
        if (ports.length === 0 || !mayProbe(family, target, nodeContext)) return [];
        return [{ family, target, probedAt: known.probedAt }];
      }),
    );
    return found.sort((a, b) => Number(a.probedAt > b.probedAt) - Number(a.probedAt < b.probedAt));
  }

  /** Whether another endpoint of a service port may be ejected. */
  #mayEject({ check, targets }: WatchedPort): boolean {
    const ejected = targets.filter((target) => this.#ejections.has(target));
    return ejected.length < mostEjected(targets.length, check.maxEjected);
  }

  async #probe(family: Family, target: string, port: WatchedPort): Promise<void> {
    const { clock, probe } = this.#parts;
    const known = this.#known[family].get(target);
    if (known !== undefined) known.probedAt = known.keptSince = clock.monotonic();
    const base = known?.observation.base;
    this.#probing.set(target, namespaceOf(port.service));
    const [address = "", number] = splitParts(target);
    const answer = await probe(address, Number(number));
    this.#probing.delete(target);
    // The state of an endpoint that left the lists meanwhile was deleted, even if the endpoint is back.
    if (this.#isStopped || this.#known[family].get(target) !== known) return;
    if (answer === "unknown") return;
    if (answer === "answered") this.#isBack(family, target);
    else if (this.#ejections.has(target)) this.#ejections.failedAgain(target, clock.monotonic());
    else if (known?.observation.base === base) await this.#confirm(family, target, port);
  }

  #isBack(family: Family, target: string): void {
    const known = this.#known[family].get(target);
    if (known !== undefined) known.observation = answered(known.observation);
    // If it fails again, it may be probed immediately.
    if (known !== undefined && this.#ejections.has(target)) known.keptSince = Number.NEGATIVE_INFINITY;
    this.#return(family, target);
  }

  /** Ejects an endpoint, unless it answered a client while it was probed. */
  async #confirm(family: Family, target: string, port: WatchedPort): Promise<void> {
    const known = this.#known[family].get(target);
    const spec = this.#parts.state().families[family]?.table.sets.get(ANSWERS)?.spec;
    if (known === undefined || spec === undefined) return;
    const { last } = known.observation;
    const answers = await this.#parts.tables.element(family, spec, target).then(
      (element) => element?.packets,
      () => undefined,
    );
    const ports = this.#watched.portsOf(family, target);
    if (this.#isStopped || this.#known[family].get(target) !== known) return;
    if (answers !== last.answers || this.#ejections.has(target)) return;
    if (!ports.some((one) => this.#mayEject(one))) return;
    const { clock, cache, request, onEjected } = this.#parts;
    const services = this.#servicesOf(family, target);
    const endpoint = { family, target, services, at: clock.now(), ...unanswered(known.observation) };
    this.#ejections.add(endpoint, clock.monotonic(), port.check.ejectMs);
    cache.setEjected(family, target, true, services);
    this.#loggers
      .of(namespaceOf(port.service))
      .warn(
        { endpoint: targetText(target), services: listText(services), found: unansweredText(endpoint) },
        "ejected an endpoint that does not answer",
      );
    this.#leaving.push({ endpoint, since: clock.monotonic() });
    onEjected(endpoint);
    request();
  }

  #return(family: Family, target: string): void {
    const endpoint = this.#ejections.delete(target);
    if (endpoint === undefined) return;
    const { cache, request } = this.#parts;
    const isWatched = this.#watched.of(family).has(target);
    // Other Services may have added it since then.
    const services = [...new Set([...endpoint.services, ...this.#servicesOf(family, target)])];
    cache.setEjected(family, target, false, services);
    const message = isWatched ? "an ejected endpoint answers again" : "an ejected endpoint left the lists";
    const fields = { endpoint: targetText(target), services: listText(services) };
    this.#loggers.of(namespaceOf(services[0] ?? serviceName("", ""))).info(fields, message);
    request();
  }
}

/** Takes from both lists in turn, so that thousands of one kind do not hold up the other. */
function inTurn<T>(some: readonly T[], others: readonly T[]): T[] {
  const turns = Array.from({ length: Math.max(some.length, others.length) }, (_, index) => index);
  return turns.flatMap((index) => [...some.slice(index, index + 1), ...others.slice(index, index + 1)]);
}
