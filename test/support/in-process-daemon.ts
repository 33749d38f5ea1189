import { setTimeout as sleep } from "node:timers/promises";
import { resolveOptions } from "../../src/config/resolve.ts";
import { createDaemon, type Daemon } from "../../src/daemon/daemon.ts";
import { ALL_FEATURES } from "../../src/features/selection.ts";
import type { Nft } from "../../src/kernel/nft.ts";
import { OwnCommits } from "../../src/kernel/own-commits.ts";
import type { ApiClient } from "../../src/kube/client/client.ts";
import { apiDecoders } from "../../src/kube/decode/decoders.ts";
import { clusterSource } from "../../src/kube/reflector/cluster-source.ts";
import type { HostView } from "../../src/sync/node-context.ts";
import { idleHost } from "./idle-host.ts";
import { idleOrigin } from "./idle-origin.ts";
import { ManualClock } from "./manual-clock.ts";
import { memoryLogger } from "./memory-logger.ts";
import { nftTables } from "./nft-tables.ts";
import type { StubApi } from "./stub-api/stub-api.ts";
import { stubClient } from "./stub-api/stub-client.ts";

/** Options of an {@link InProcessDaemon}. */
export interface InProcessOptions {
  readonly api: StubApi;
  readonly nft: Nft;
  readonly families?: HostView["families"];
}

/** Pause between two checks of a condition, real milliseconds. */
const STEP = 5;

/**
 * Maximum advance of the daemon's clock between two checks, so that a slow machine causes no timeouts.
 * Milliseconds.
 */
const LONGEST_STEP = 100;

/** The options of a daemon that has no servers and records no refusals. */
export const NO_SERVERS = {
  healthzBindAddress: undefined,
  metricsBindAddress: undefined,
  daemonSocket: "",
  settings: { ...resolveOptions().options.settings, refusalLogSize: 0 },
} as const;

const CONFIGURATION = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clusterCIDR: 10.244.0.0/16,fd00:244::/32
nodePortAddresses: [primary]
nftProxy: { affinityMapSize: 1024 }
`;

/** A daemon without servers in this process. A test controls its clock, so that it can wait for minutes. */
export class InProcessDaemon {
  /** The daemon's time. */
  readonly clock: ManualClock;
  /** The daemon itself. */
  readonly daemon: Daemon;
  readonly #client: ApiClient;

  private constructor(clock: ManualClock, daemon: Daemon, client: ApiClient) {
    this.clock = clock;
    this.daemon = daemon;
    this.#client = client;
  }

  /** Starts a daemon. */
  static async start({ api, nft, families = ["ip", "ip6"] }: InProcessOptions): Promise<InProcessDaemon> {
    const clock = new ManualClock(Date.UTC(2026, 10, 20));
    const logger = memoryLogger();
    const client = stubClient(api);
    const daemon = await createDaemon({
      options: {
        ...resolveOptions({ configText: CONFIGURATION }).options,
        ...NO_SERVERS,
        features: ALL_FEATURES,
      },
      nodeName: "node-1",
      version: "test",
      hostVersions: { nft: "nftables v1.1.3", kernel: "6.18.1", socat: "1.8.0.3", nodejs: "v20.20.2" },
      nft,
      ownCommits: new OwnCommits(clock),
      tables: nftTables(nft),
      system: {
        ...idleHost(),
        clock,
        readHost: async () => ({ families, addresses: { ip: [], ip6: [] }, local: [] }),
      },
      logger,
      objects: idleOrigin((handlers) =>
        clusterSource({
          client,
          nodeName: "node-1",
          decoders: apiDecoders(() => undefined),
          handlers,
          clock,
          random: () => 0.5,
          logger,
        }),
      ),
      dryRun: false,
      flags: new Map(),
      recentLog: () => [],
    });
    await daemon.start();
    return new InProcessDaemon(clock, daemon, client);
  }

  /** Advances both clocks until `condition` is true. The test's timeout is the limit. */
  async until(condition: () => boolean | Promise<boolean>): Promise<void> {
    let then = performance.now();
    while (!(await condition())) {
      await sleep(STEP);
      const now = performance.now();
      this.clock.advance(Math.min(now - then, LONGEST_STEP));
      then = now;
    }
  }

  /** Advances the daemon's clock by seconds. */
  async pass(seconds: number): Promise<void> {
    for (let second = 0; second < seconds; second++) {
      this.clock.advance(1000);
      await sleep(1);
    }
  }

  /** Stops the daemon. */
  async stop(): Promise<void> {
    await this.daemon.stop();
    this.#client.close();
  }
}
