import { setTimeout as sleep } from "node:timers/promises";
import { resolveOptions } from "../../src/config/resolve.ts";
import { StaleFlowCleaner } from "../../src/conntrack/stale-flow-cleaner.ts";
import { Daemon } from "../../src/daemon/daemon.ts";
import { EventChannel } from "../../src/daemon/events/event-channel.ts";
import type { EventNote } from "../../src/daemon/events/events.ts";
import { ServiceHealthServers } from "../../src/daemon/health/service-health.ts";
import { createMetrics } from "../../src/daemon/metrics/metrics.ts";
import { Telemetry } from "../../src/daemon/metrics/telemetry.ts";
import type { Nft } from "../../src/kernel/nft.ts";
import { HttpApiClient } from "../../src/kube/client/client.ts";
import { parseServer } from "../../src/kube/client/connection.ts";
import { apiDecoders } from "../../src/kube/decode/decoders.ts";
import { clusterSource } from "../../src/kube/reflector/cluster-source.ts";
import { ObjectCache } from "../../src/model/object-cache.ts";
import type { HostView } from "../../src/sync/node-context.ts";
import { ManualClock } from "./manual-clock.ts";
import { memoryLogger } from "./memory-logger.ts";
import type { StubApi } from "./stub-api/stub-api.ts";

/** How an {@link InProcessDaemon} differs from that of the recorded towns. */
export interface InProcessOptions {
  readonly api: StubApi;
  readonly nft: Nft;
  readonly families?: HostView["families"];
}

/** Real milliseconds of a step, and how far the daemon's clock goes in one. */
const STEP = 5;

/** The daemon's loop inside this process, on a clock that a test moves: for what takes minutes. */
export class InProcessDaemon {
  readonly clock = new ManualClock(Date.UTC(2026, 10, 20));
  readonly logger = memoryLogger();
  readonly metrics = createMetrics("test", {
    cpu: () => ({ user: 0, system: 0 }),
    residentBytes: () => 0,
    startedAt: 0,
  });
  /** What was told to the cluster. */
  readonly events: EventNote[] = [];
  readonly daemon: Daemon;
  readonly #client: HttpApiClient;

  constructor({ api, nft, families = ["ip", "ip6"] }: InProcessOptions) {
    const { clock, logger, metrics } = this;
    const cache = new ObjectCache("node-1");
    const { url } = api;
    this.#client = new HttpApiClient({
      userAgent: "nft-proxy/test",
      connect: async () => ({
        server: parseServer(url, "the stub"),
        credentials: async () => ({ headers: {}, tls: {} }),
      }),
    });
    const sink = {
      send: async (_method: string, _path: string, body: object) => void this.events.push(body as EventNote),
    };
    const events = new EventChannel({ sink, clock, logger, metrics, cache });
    const host: HostView = { families, addresses: { ip: [], ip6: [] } };
    const noFlows = { udpFlows: async function* () {}, forget: async () => ({ ip: 0, ip6: 0 }) };
    this.daemon = new Daemon({
      options: resolveOptions({
        configText: [
          "apiVersion: kubeproxy.config.k8s.io/v1alpha1",
          "kind: KubeProxyConfiguration",
          "clusterCIDR: 10.244.0.0/16,fd00:244::/32",
          "nodePortAddresses: [primary]",
          "nftProxy: { affinityMapSize: 1024 }",
        ].join("\n"),
      }).options,
      cache,
      nft,
      clock,
      logger,
      host,
      readHost: async () => host,
      makeSource: (handlers) =>
        clusterSource({
          client: this.#client,
          nodeName: "node-1",
          decoders: apiDecoders(() => undefined),
          handlers,
          clock,
          random: () => 0.5,
          logger,
        }),
      telemetry: new Telemetry({ metrics, events, logger, families }),
      serviceHealth: new ServiceHealthServers({ isProxyHealthy: () => true, clock, logger, onFailure: () => {} }),
      cleaner: new StaleFlowCleaner({
        table: noFlows,
        nodeAddresses: async () => new Set<string>(),
        now: () => clock.now(),
        logger,
        onCleaned: () => {},
      }),
      dryRun: false,
      onFirstSync: () => {},
      compactHeap: () => {},
    });
    this.daemon.start();
  }

  /** Lets things happen, on both clocks alike, until `condition` holds; the test's own timeout is the limit. */
  async until(condition: () => boolean | Promise<boolean>): Promise<void> {
    while (!(await condition())) {
      await sleep(STEP);
      this.clock.advance(STEP);
    }
  }

  /** Lets so many seconds of the daemon's time pass at once. */
  async pass(seconds: number): Promise<void> {
    for (let second = 0; second < seconds; second++) {
      this.clock.advance(1000);
      await sleep(1);
    }
  }

  async stop(): Promise<void> {
    await this.daemon.stop();
    this.#client.close();
  }
}
