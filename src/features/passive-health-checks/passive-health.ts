import { FailureLog } from "../../base/failure-log.ts";
import { FAMILIES, type Family } from "../../base/family.ts";
import { NamespaceLoggers } from "../../base/namespace-loggers.ts";
import { oncePerObject } from "../../base/once-per-object.ts";
import { PeriodicTask } from "../../base/periodic-task.ts";
import { one, type Sample } from "../../base/sample.ts";
import { counted, listText } from "../../base/text.ts";
import { loggedReading } from "../../kernel/logged-reading.ts";
import { type EjectedEndpoint, ejectedText } from "../../model/ejected-endpoint.ts";
import { mostEjected } from "../../model/endpoint-choice.ts";
import { namespaceOf, type ServiceName, serviceLabels, serviceName } from "../../model/ids.ts";
import { splitParts, targetText } from "../../nft/elements.ts";
import { contextOf } from "../../ruleset/node-context.ts";
import type { DaemonPart, FeatureCard, FeatureHost, FinishedSync } from "../seam/daemon-part.ts";
import { type Probe, probeByConnecting } from "./probe.ts";
import { ANSWERS, ATTEMPTS, mayTry, RESETS, type WatchSetName } from "./rules.ts";
import {
  answered,
  countsSince,
  type EndpointCounts,
  type Observation,
  observe,
  unanswered,
  unansweredText,
} from "./suspicion.ts";
import { unansweredReleaser } from "./unanswered-connections.ts";
import { WatchedEndpoints, type WatchedPort } from "./watched-endpoints.ts";

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

/** What is known of a watched endpoint. Times are on the monotonic clock. */
interface EndpointState {
  observation: Observation;
  /** When it was last probed. */
  probedAt: number;
  /** The same, or never if it has returned to the lists since: it may then be ejected again at once. */
  keptAt: number;
}

/** An ejected endpoint, and when it is probed again: after ever longer pauses. Times are monotonic. */
interface Ejection {
  readonly endpoint: EjectedEndpoint;
  dueAt: number;
  pauseMs: number;
}

/** Maximum time until an ejected endpoint is probed again. Milliseconds. */
const LONGEST_PAUSE = 300_000;

/** An endpoint that the kernel's lists may still have. */
interface Leaving {
  readonly endpoint: EjectedEndpoint;
  /** When it was ejected, on the monotonic clock. */
  readonly since: number;
}

/** Maximum number of ejected endpoints that have a series: a node may lose its network. */
const MOST_NAMED = 100;

/**
 * Watches whether endpoints answer new connections, by the kernel's counters. If one answers none, the daemon
 * probes it by connecting to it. If that fails, too, it leaves this node's lists until it answers.
 */
export class PassiveHealth implements DaemonPart {
  readonly #host: FeatureHost;
  readonly #probeOf: Probe;
  readonly #release: ReturnType<typeof unansweredReleaser>;
  readonly #watched = new WatchedEndpoints();
  /** By `address . port`, as all maps of endpoints. */
  readonly #known = new Map<string, EndpointState>();
  /** In the order of ejection. */
  readonly #ejections = new Map<string, Ejection>();
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
  /** The number of ejections so far. */
  #ejectionCount = 0;

  constructor(
    host: FeatureHost,
    probe = probeByConnecting,
    release = unansweredReleaser(host.flows, host.clock, host.logger),
  ) {
    this.#host = host;
    this.#probeOf = probe;
    this.#release = release;
    this.#loggers = new NamespaceLoggers(host.clock, host.logger);
    this.#failures = new FailureLog(host, "read the counters of watched endpoints", ": none is ejected");
  }

  /** The ejected endpoints of both families, in the order of ejection. */
  ejected(): readonly EjectedEndpoint[] {
    return Array.from(this.#ejections.values(), ({ endpoint }) => endpoint);
  }

  readonly metrics = {
    nft_proxy_watched_endpoints: {
      kind: "gauge",
      help: "Endpoints of Services with passive health checks",
      samples: () => one(this.#watched.size),
    },
    nft_proxy_ejected_endpoints: {
      kind: "gauge",
      help: "Endpoints that get no new connections because they do not answer this node",
      samples: () => one(this.#ejections.size),
    },
    // `fleet` finds by it which endpoints most nodes eject.
    nft_proxy_endpoint_ejected: {
      kind: "gauge",
      help: "1 for each of the 100 endpoints ejected first, with one of its Services",
      labels: ["namespace", "service", "endpoint"],
      samples: () => this.ejected().slice(0, MOST_NAMED).map(ejectedSample),
    },
    nft_proxy_endpoint_ejections_total: {
      kind: "counter",
      help: "Endpoints that were ejected because they did not answer this node",
      samples: () => one(this.#ejectionCount),
    },
    nft_proxy_watched_connections_total: {
      kind: "counter",
      help: "New connections to Services with passive health checks: all that were tried, those answered, and those refused",
      labels: ["namespace", "service", "result"],
      samples: () => [...this.#connections].flatMap(connectionSamples),
    },
  } satisfies DaemonPart["metrics"];

  /** Lists the last ejected endpoint first. */
  card(now: number): FeatureCard | undefined {
    const [watched, ejected] = [this.#watched.size, this.ejected()];
    if (watched === 0) return undefined;
    const lineOf = (endpoint: EjectedEndpoint) =>
      `${targetText(endpoint.target)} of ${listText(endpoint.services)}, ${ejectedText(endpoint, now)}`;
    return {
      title: "Ejected endpoints",
      tone: ejected.length === 0 ? "good" : "bad",
      value: String(ejected.length),
      lines: [`of ${counted(watched, "watched endpoint")}`],
      list: ejected.toReversed().map(lineOf),
    };
  }

  /**
   * Watches the endpoints that the sync rendered. The state of an endpoint that left all lists is deleted, so
   * that it is served immediately when it returns.
   */
  synced(report: FinishedSync): void {
    this.#watched.update(this.#host.cache, this.#host.state(), report);
    const isLeaving = ({ endpoint, since }: Leaving) =>
      since > report.startedMonotonic || endpoint.services.some((name) => report.waiting.has(name));
    const left = this.#leaving.filter((one) => !isLeaving(one));
    this.#leaving = this.#leaving.filter(isLeaving);
    if (left.length > 0) void this.#release(left.map(({ endpoint }) => endpoint));
    this.#adopt();
    for (const target of this.#ejections.keys()) if (!this.#watched.has(target)) this.#endEjection(target);
    for (const target of this.#known.keys()) if (!this.#watched.has(target)) this.#known.delete(target);
    for (const name of this.#connections.keys())
      if (!this.#watched.hasService(name)) this.#connections.delete(name);
    if (this.#watched.size === 0 || this.#isStopped) {
      this.#task?.stop();
      this.#task = undefined;
    } else {
      const pause = (took: number) => Math.max(SHORTEST_PAUSE, PAUSE_RATIO * took);
      this.#task ??= new PeriodicTask(this.#host.clock, pause, () => this.poll());
    }
  }

  /** Adopts endpoints that an earlier process ejected: they are probed immediately. */
  #adopt(): void {
    const { cache, clock, logger } = this.#host;
    let adopted = 0;
    for (const family of FAMILIES) {
      for (const target of cache.ejected[family]) {
        if (this.#ejections.has(target)) continue;
        const [port] = this.#watched.portsOf(target);
        const pauseMs = port?.check.ejectMs ?? 0;
        const endpoint = { family, target, services: this.#watched.servicesOf(target), at: clock.now() };
        this.#ejections.set(target, { endpoint, dueAt: clock.monotonic(), pauseMs });
        adopted += 1;
      }
    }
    if (adopted > 0) logger.info({ endpoints: adopted }, "trying endpoints that an earlier process ejected");
  }

  /** Stops watching. The results of running connects are ignored. */
  stop(): void {
    this.#isStopped = true;
    this.#task?.stop();
  }

  /** Reads the counters once, then probes endpoints that do not answer. Never rejects. */
  async poll(): Promise<void> {
    await loggedReading(this.#failures, async () => {
      for (const family of FAMILIES) await this.#pollFamily(family);
      this.#probeSome();
    });
  }

  async #pollFamily(family: Family): Promise<void> {
    const sets = this.#host.state().families[family]?.table.sets;
    // The kernel always has the sets, perhaps not yet with the elements of these: the loop below only takes
    // endpoints that are watched.
    if (!sets?.get(ATTEMPTS)?.elements.size) return;
    // Reads attempts first, so that a connection answered between the readings does not look unanswered.
    const attempts = await this.#read(family, ATTEMPTS);
    const resets = await this.#read(family, RESETS);
    const answers = await this.#read(family, ANSWERS);
    for (const [target, count] of attempts) {
      if (!this.#watched.has(target)) continue;
      const counts = { attempts: count, answers: answers.get(target) ?? 0, resets: resets.get(target) ?? 0 };
      this.#observe(target, counts);
    }
  }

  #observe(target: string, counts: EndpointCounts): void {
    const known = this.#known.get(target);
    const observation = observe(known?.observation, counts);
    if (known === undefined) {
      const never = Number.NEGATIVE_INFINITY;
      this.#known.set(target, { observation, probedAt: never, keptAt: never });
      return;
    }
    const { last } = known.observation;
    known.observation = observation;
    if (counts.attempts === last.attempts && counts.answers === last.answers) return;
    for (const service of this.#watched.servicesOf(target)) {
      this.#connections.set(service, countsSince(last, counts, this.#connections.get(service)));
    }
  }

  async #read(family: Family, set: WatchSetName): Promise<ReadonlyMap<string, number>> {
    const spec = this.#host.state().families[family]?.table.sets.get(set)?.spec;
    const counts = new Map<string, number>();
    if (spec === undefined) return counts;
    for await (const batch of this.#host.tables.elements(family, spec))
      for (const { key, packets = 0 } of batch) counts.set(key, packets);
    return counts;
  }

  /** Probes suspects and ejected endpoints whose pause is over, as many as may be probed simultaneously. */
  #probeSome(): void {
    const now = this.#host.clock.monotonic();
    // The longest overdue first.
    const due = [...this.#ejections].filter(([, { dueAt }]) => dueAt <= now);
    const ejected = due.sort(([, a], [, b]) => a.dueAt - b.dueAt).map(([target]) => target);
    for (const target of inTurn(ejected, this.#suspects(now))) {
      if (this.#probing.size >= MOST_PROBED) return;
      const [port] = this.#watched.portsOf(target);
      if (port === undefined || this.#probing.has(target)) continue;
      const namespace = namespaceOf(port.service);
      const ofNamespace = [...this.#probing.values()].filter((one) => one === namespace);
      if (ofNamespace.length < MOST_PROBED_OF_NAMESPACE) void this.#probe(target, port);
    }
  }

  /**
   * The endpoints that answered none of a sufficient number of new connections, and that may be ejected.
   * Those that were probed longest ago come first, so that one tenant's suspects do not keep another's from
   * being probed.
   */
  #suspects(now: number): string[] {
    const nodeContext = this.#host.nodeContext();
    // Each endpoint of a service port asks, and an answer counts all of them.
    const mayEject = oncePerObject((port: WatchedPort) => this.#mayEject(port));
    const found = [...this.#known].filter(([target, { observation, probedAt, keptAt }]) => {
      const { attempts } = unanswered(observation);
      if (attempts === 0 || this.#ejections.has(target)) return false;
      const suspected = this.#watched.portsOf(target).find((port) => {
        const { failures, intervalMs, ejectMs } = port.check;
        const isDue = now - probedAt >= intervalMs && now - keptAt >= ejectMs;
        return isDue && attempts >= failures && mayEject(port);
      });
      const context = suspected && contextOf(nodeContext, suspected.family);
      return context !== undefined && mayTry(target, context);
    });
    // The difference of two that were never probed is NaN.
    return found.sort(([, a], [, b]) => a.probedAt - b.probedAt || 0).map(([target]) => target);
  }

  /** Whether another endpoint of a service port may be ejected. */
  #mayEject({ check, targets }: WatchedPort): boolean {
    const ejected = targets.filter((target) => this.#ejections.has(target));
    return ejected.length < mostEjected(targets.length, check.maxEjected);
  }

  async #probe(target: string, port: WatchedPort): Promise<void> {
    const { clock } = this.#host;
    const known = this.#known.get(target);
    if (known !== undefined) known.probedAt = known.keptAt = clock.monotonic();
    const base = known?.observation.base;
    this.#probing.set(target, namespaceOf(port.service));
    const [address = "", number] = splitParts(target);
    const answer = await this.#probeOf(address, Number(number));
    this.#probing.delete(target);
    // The state of an endpoint that left the lists meanwhile was deleted, even if the endpoint is back.
    if (this.#isStopped || this.#known.get(target) !== known) return;
    if (answer === "unknown") return;
    const hasAnsweredClient = known?.observation.base !== base;
    const ejection = this.#ejections.get(target);
    if (answer === "answered") this.#recordAnswer(target);
    else if (ejection !== undefined) {
      ejection.pauseMs = Math.min(2 * ejection.pauseMs, LONGEST_PAUSE);
      ejection.dueAt = clock.monotonic() + ejection.pauseMs;
    } else if (!hasAnsweredClient) await this.#ejectUnlessAnswered(target, port);
  }

  #recordAnswer(target: string): void {
    const known = this.#known.get(target);
    if (known !== undefined) known.observation = answered(known.observation);
    // If it fails again, it may be probed immediately.
    if (known !== undefined && this.#ejections.has(target)) known.keptAt = Number.NEGATIVE_INFINITY;
    this.#endEjection(target);
  }

  /** Ejects an endpoint, unless it answered a client while it was probed. */
  async #ejectUnlessAnswered(target: string, port: WatchedPort): Promise<void> {
    const { family } = port;
    const known = this.#known.get(target);
    const spec = this.#host.state().families[family]?.table.sets.get(ANSWERS)?.spec;
    if (known === undefined || spec === undefined) return;
    const { last } = known.observation;
    const answers = await this.#host.tables.element(family, spec, target).then(
      (element) => element?.packets,
      () => undefined,
    );
    const ports = this.#watched.portsOf(target);
    if (this.#isStopped || this.#known.get(target) !== known) return;
    if (answers !== last.answers || this.#ejections.has(target)) return;
    if (!ports.some((one) => this.#mayEject(one))) return;
    const { clock, cache, requestSync, warn } = this.#host;
    const [services, name] = [this.#watched.servicesOf(target), targetText(target)];
    const reason = unansweredText(unanswered(known.observation));
    const endpoint = { family, target, services, at: clock.now(), reason };
    const pauseMs = port.check.ejectMs;
    this.#ejections.set(target, { endpoint, dueAt: clock.monotonic() + pauseMs, pauseMs });
    cache.setEjected(family, target, true, services);
    this.#loggers
      .of(namespaceOf(port.service))
      .warn(
        { endpoint: name, services: listText(services), found: reason },
        "ejected an endpoint that does not answer",
      );
    this.#leaving.push({ endpoint, since: clock.monotonic() });
    this.#ejectionCount += 1;
    const note = `endpoint ${name} does not answer: it ${reason}, and gets no new ones until it answers`;
    const event = { reason: "EndpointEjected", action: "PassiveHealthCheck", note, clusterKey: name };
    for (const service of services) warn(service, event);
    requestSync();
  }

  #endEjection(target: string): void {
    const endpoint = this.#ejections.get(target)?.endpoint;
    if (endpoint === undefined) return;
    this.#ejections.delete(target);
    const { cache, requestSync } = this.#host;
    // Other Services may have added it since then.
    const services = [...new Set([...endpoint.services, ...this.#watched.servicesOf(target)])];
    cache.setEjected(endpoint.family, target, false, services);
    const message = this.#watched.has(target)
      ? "an ejected endpoint answers again"
      : "an ejected endpoint left the lists";
    const fields = { endpoint: targetText(target), services: listText(services) };
    this.#loggers.of(namespaceOf(services[0] ?? serviceName("", ""))).info(fields, message);
    requestSync();
  }
}

/** Takes from both lists in turn, so that thousands of one kind do not hold up the other. */
function inTurn<T>(some: readonly T[], others: readonly T[]): T[] {
  const turns = Array.from({ length: Math.max(some.length, others.length) }, (_, index) => index);
  return turns.flatMap((index) => [...some.slice(index, index + 1), ...others.slice(index, index + 1)]);
}

function ejectedSample({ target, services }: EjectedEndpoint): Sample {
  const labels = serviceLabels(services[0] ?? serviceName("", ""));
  return { labels: { ...labels, endpoint: targetText(target) }, value: 1 };
}

function connectionSamples([name, counts]: readonly [ServiceName, EndpointCounts]): readonly Sample[] {
  const results = { tried: counts.attempts, answered: counts.answers, refused: counts.resets };
  return Object.entries(results).map(([result, value]) => ({
    labels: { ...serviceLabels(name), result },
    value,
  }));
}
