import type { Timer } from "../../base/clock.ts";
import { messageOf } from "../../base/errors.ts";
import { FailureLog } from "../../base/failure-log.ts";
import { HistogramCounts } from "../../base/histogram-counts.ts";
import { PeriodicTask } from "../../base/periodic-task.ts";
import type { Sample } from "../../base/sample.ts";
import { counted } from "../../base/text.ts";
import { ValuesByName } from "../../base/values-by-name.ts";
import { type ConnectionAttribution, connectionAttribution } from "../../conntrack/connection-attribution.ts";
import type { FlowListener } from "../../kernel/flow-listener.ts";
import type { ServiceName } from "../../model/ids.ts";
import type { DaemonPart, FeatureCard, FeatureHost } from "../seam/daemon-part.ts";
import { MOST_SERVICES, serviceSeries } from "../seam/service-series.ts";
import { hasFigures, type Lacking, lackAdvice, lackText, readLacking } from "./accounting.ts";
import { ConnectionObserver, mayMatter, type Observation } from "./observer.ts";
import { TrafficByName } from "./summary.ts";

/** The bounds of the buckets of durations, seconds. */
const BUCKETS = [0.01, 0.1, 1, 10, 60, 600, 3600];

/** Time after which listening starts again if it ended. Milliseconds. */
const RETRY = 30_000;

/** The card shows the busiest Services of the last whole period. Milliseconds. */
const PERIOD = 60_000;

const DURATION = "nft_proxy_observed_connection_duration_seconds";

/** What is counted of a Service, before its first connection. */
function noCounts() {
  return { began: 0, ended: 0, sent: 0, received: 0, durations: new HistogramCounts(BUCKETS) };
}

type Counts = ReturnType<typeof noCounts>;

/** Counts connections, their bytes and durations by Service, from what the kernel reports of them. */
export class ServiceTraffic implements DaemonPart {
  readonly #host: FeatureHost;
  readonly #failures: FailureLog;
  readonly #observer: ConnectionObserver;
  readonly #counts = new ValuesByName<ServiceName, Counts>(MOST_SERVICES, noCounts);
  #attribute: ConnectionAttribution | undefined;
  #listener: FlowListener | undefined;
  /** Undefined before the first sync. */
  #lacking: Lacking | undefined;
  #retry: Timer | undefined;
  #periods: PeriodicTask | undefined;
  /** Notifications that the present listener lost, and that earlier ones did. */
  #lost = 0;
  #lostBefore = 0;
  #busy = new TrafficByName(MOST_SERVICES);
  /** That of the last whole period; undefined during the first one. */
  #busyBefore: TrafficByName | undefined;

  readonly metrics = {
    nft_proxy_observed_connections_total: {
      kind: "counter",
      help: "Connections to Services that began or ended while the daemon observed them",
      labels: ["namespace", "service", "event"],
      samples: () => this.#samples("event", ({ began, ended }) => ({ began, ended })),
    },
    nft_proxy_observed_bytes_total: {
      kind: "counter",
      help: "Bytes of ended connections to Services, with their headers, that clients sent and received; 0 while nf_conntrack_acct is off",
      labels: ["namespace", "service", "direction"],
      samples: () => this.#samples("direction", ({ sent, received }) => ({ sent, received })),
    },
    [DURATION]: {
      kind: "histogram",
      help: "Durations of ended connections to Services; none while nf_conntrack_timestamp is off",
      labels: ["namespace", "service"],
      samples: () =>
        serviceSeries(this.#counts).flatMap(([labels, { durations }]) => durations.samples(DURATION, labels)),
    },
    nft_proxy_observed_lost_total: {
      kind: "counter",
      help: "What the metrics of observed connections lack: notifications that the kernel dropped, and the figures of ended connections",
      labels: ["what"],
      samples: async () => {
        const listener = this.#listener;
        const lost = (await listener?.dropped()) ?? 0;
        // The kernel forgets its count with the socket, which may be gone before we learn of it.
        if (listener === this.#listener) this.#lost = Math.max(this.#lost, lost);
        return [
          { labels: { what: "notifications" }, value: this.#lostBefore + this.#lost },
          { labels: { what: "figures" }, value: this.#observer.withoutFigures },
        ];
      },
    },
  } satisfies DaemonPart["metrics"];

  constructor(host: FeatureHost) {
    this.#host = host;
    this.#failures = new FailureLog(host, "observe connections", ": their metrics stand still");
    this.#observer = new ConnectionObserver({
      clock: host.clock,
      table: host.flows,
      failures: new FailureLog(
        host,
        "read the bytes and durations of ended connections",
        ": the metrics lack them",
      ),
      attribute: (flow) => {
        this.#attribute ??= connectionAttribution(host.state(), host.cache, new Set(host.localAddresses()));
        return this.#attribute(flow);
      },
      isWanted: () => true,
      hasFigures: () => this.#lacking !== undefined && hasFigures(this.#lacking),
      take: (observed) => this.#count(observed),
    });
  }

  /** Starts with the first sync. */
  synced(): void {
    // Finds Services and endpoints anew, as they may have changed.
    this.#attribute = undefined;
    if (this.#periods !== undefined) return;
    this.#periods = new PeriodicTask(this.#host.clock, PERIOD, () => this.#endPeriod());
    void this.#listen();
  }

  stop(): void {
    this.#periods?.stop();
    this.#retry?.cancel();
    this.#listener?.stop();
  }

  /** Undefined before the first sync. */
  card(): FeatureCard | undefined {
    if (this.#lacking === undefined) return undefined;
    const missing = this.#lacking.map(lackText);
    if (this.#failures.isFailing) missing.unshift("connections are not observed: see the log");
    const busy = this.#busyBefore ?? this.#busy;
    const when = this.#busyBefore === undefined ? "since the start" : "in the last whole minute";
    return {
      title: "Busiest Services",
      tone: this.#failures.isFailing ? "bad" : busy.size === 0 ? "idle" : "good",
      value: counted(busy.total.connections, "connection"),
      lines: [`to ${counted(busy.size, "Service")} began ${when}`, ...missing],
      list: busy.top().map(([name, { connections, sent, received }]) => {
        return `${name}: ${counted(connections, "connection")}, ${sent + received} B`;
      }),
    };
  }

  async #listen(): Promise<void> {
    const { files, logger, listenToFlows } = this.#host;
    this.#lacking = await readLacking(files);
    const listener = listenToFlows({
      wants: mayMatter,
      onFlow: (change, flow) => this.#observer.see(change, flow),
      onEnd: (error) => this.#listenAgain(error),
    });
    this.#listener = listener;
    if (!(await listener.ready)) return;
    if (this.#failures.isFailing) this.#failures.end();
    else logger.info({ lacks: this.#lacking.map(lackAdvice) }, "observing connections");
  }

  #listenAgain(error: unknown): void {
    this.#failures.add(messageOf(error));
    this.#listener = undefined;
    this.#lostBefore += this.#lost;
    this.#lost = 0;
    this.#retry = this.#host.clock.after(RETRY, () => void this.#listen());
  }

  async #endPeriod(): Promise<void> {
    this.#lacking = await readLacking(this.#host.files);
    this.#busyBefore = this.#busy;
    this.#busy = new TrafficByName(MOST_SERVICES);
  }

  #count({ event, port, flow, durationMs }: Observation): void {
    const counts = this.#counts.of(port.service.name);
    if (event === "began") {
      counts.began += 1;
      this.#busy.addConnection(port.service.name);
      return;
    }
    this.#busy.addBytes(port.service.name, flow);
    counts.ended += 1;
    counts.sent += flow.sent?.bytes ?? 0;
    counts.received += flow.received?.bytes ?? 0;
    if (durationMs !== undefined) counts.durations.add(durationMs / 1000);
  }

  #samples(label: string, valuesOf: (counts: Counts) => Readonly<Record<string, number>>): Sample[] {
    return serviceSeries(this.#counts).flatMap(([labels, counts]) =>
      Object.entries(valuesOf(counts)).map(([word, value]) => ({
        labels: { ...labels, [label]: word },
        value,
      })),
    );
  }
}
