import { writeFile } from "node:fs/promises";
import { ApiClient } from "../../../src/kube/client/client.ts";
import { parseServer } from "../../../src/kube/client/load-connection.ts";
import { apiDecoders } from "../../../src/kube/decode/decoders.ts";
import { clusterSource } from "../../../src/kube/reflector/cluster-source.ts";
import { type ObjectSource, RESOURCE_NAMES, type SourceHandler } from "../../../src/kube/source.ts";
import { apiService, apiSlice } from "../../support/api-objects.ts";
import { memoryLogger } from "../../support/memory-logger.ts";
import { StubApi } from "../../support/stub-api/stub-api.ts";
import { atMost, type Figure, time, type Work } from "../figures.ts";
import { FleetLog } from "../fleet-log.ts";
import { fleetPlot } from "../fleet-plot.ts";
import { VirtualTime } from "../virtual-time.ts";

const NODES = 500;
/** The size is small, because this simulates requests only, and all nodes share a processor. */
const SERVICES = 5;
const OUTAGE = 60_000;
/** Downtime of a restarting server, milliseconds. */
const RESTART = 5_000;
/** Maximum time of a recovery, milliseconds. */
const PATIENCE = 120_000;
/** Pause between two chapters, milliseconds. */
const REST = 10_000;
const PLOT = new URL("../../../docs/install/fleet.svg", import.meta.url);

/** The sources of many nodes, which follow one API server. */
class Fleet {
  readonly time = new VirtualTime();
  readonly log = new FleetLog(() => this.time.clock.monotonic());
  api: StubApi;
  readonly #sources: readonly ObjectSource[];
  readonly #clients: readonly ApiClient[];

  constructor(api: StubApi) {
    this.api = api;
    const server = parseServer(api.url, "the stub");
    const connection = {
      name: "the fleet",
      server,
      credentials: async () => ({}),
      isCurrent: async () => true,
    };
    const options = { userAgent: "nft-proxy/fleet", connect: async () => connection };
    this.#clients = Array.from({ length: NODES }, () => new ApiClient(options));
    this.#sources = this.#clients.map((client, node) => this.#follow(client, node));
  }

  /** Starts all nodes at once. */
  start(): void {
    for (const source of this.#sources) source.start();
  }

  /** Ends all nodes and the server. */
  async stop(): Promise<void> {
    for (const source of this.#sources) source.stop();
    for (const client of this.#clients) client.close();
    await this.api.close();
  }

  /**
   * Stops the server and starts it again later.
   * @param forgets whether it comes back without the history of its objects
   */
  async restart(away: number, forgets: boolean): Promise<void> {
    const { port, cluster } = this.api;
    await this.api.close();
    await this.time.settle();
    if (forgets) for (const resource of RESOURCE_NAMES) cluster.compact(resource);
    await this.time.pass(away);
    this.api = await StubApi.start({ port, cluster });
  }

  /** Resolves with the milliseconds until all nodes follow all resources. */
  async followed(): Promise<number> {
    const isFollowed = () =>
      RESOURCE_NAMES.every((resource) => this.api.cluster.watches(resource).length === NODES) &&
      this.#sources.every((source) => Object.values(source.states()).every(({ failure }) => failure === ""));
    const passed = await this.time.pass(PATIENCE, isFollowed);
    if (passed >= PATIENCE) throw new Error("some nodes do not follow the API server");
    return passed;
  }

  #follow(client: ApiClient, node: number): ObjectSource {
    const counted = this.time.client(client);
    return clusterSource({
      client: {
        closeIdle: () => {},
        request: (request) => {
          this.log.request(node, request);
          return counted.request(request);
        },
      },
      nodeName: nodeName(node),
      decoders: apiDecoders(() => {}),
      handlers: { services: IGNORE, endpointslices: IGNORE, nodes: IGNORE, servicecidrs: IGNORE },
      clock: this.time.clock,
      random: Math.random,
      logger: memoryLogger(),
    });
  }
}

const IGNORE: SourceHandler<unknown> = {
  onUpsert: () => {},
  onDelete: () => {},
  onInvalid: () => {},
  onSynced: () => {},
};

function nodeName(node: number): string {
  return `node-${node}`;
}

async function startServer(): Promise<StubApi> {
  const api = await StubApi.start();
  for (let n = 0; n < SERVICES; n++) {
    api.cluster.put("services", apiService(`s-${n}`, { clusterIP: `10.96.0.${n + 1}` }));
    api.cluster.put("endpointslices", apiSlice(`s-${n}`, [`10.244.${n}.1`, `10.244.${n}.2`]));
  }
  for (let n = 0; n < NODES; n++) api.cluster.put("nodes", { metadata: { name: nodeName(n) } });
  return api;
}

async function simulate(fleet: Fleet): Promise<Figure[]> {
  const figures: Figure[] = [];
  const chapter = async (title: string, within: number, act: () => Promise<void>): Promise<void> => {
    const from = fleet.log.begin(title);
    await act();
    const recovery = await fleet.followed();
    const { requests, lists, listing } = fleet.log.peaks(from);
    const share = listing / NODES;
    figures.push({
      work: `${NODES} nodes, ${title}: until all follow again`,
      value: time(recovery),
      budget: atMost(recovery, within, time(within)),
    });
    figures.push({
      work: `${NODES} nodes, ${title}: busiest second`,
      value: `${requests} requests, ${lists} lists, of ${(100 * share).toFixed(1)} % of the nodes`,
      // A node that starts has no rules yet.
      ...(title === STARTS ? {} : { budget: atMost(share, 0.1, "10 % of the nodes") }),
    });
    await fleet.time.pass(REST);
  };
  await chapter(STARTS, 40_000, async () => fleet.start());
  await chapter("an outage of 60 s", 9_000, async () => {
    const before = [...fleet.log.attempts];
    await fleet.restart(OUTAGE, false);
    figures.push(attemptsFigure(fleet.log.attempts.map((count, node) => count - (before[node] ?? 0))));
  });
  await chapter("a restart, all versions expired", 40_000, () => fleet.restart(RESTART, true));
  await chapter("a restart, 10 % answered with 429", 40_000, async () => {
    await fleet.restart(RESTART, true);
    const fault = { kind: "status", status: 429, retryAfter: "1" } as const;
    fleet.api.addFault({ every: 10, times: Number.POSITIVE_INFINITY, fault });
  });
  return figures;
}

const STARTS = "all start";

function attemptsFigure(attempts: readonly number[]): Figure {
  const most = Math.max(...attempts);
  const mean = attempts.reduce((sum, count) => sum + count, 0) / attempts.length;
  return {
    work: `${NODES} nodes, an outage of 60 s: attempts of a node`,
    value: `${mean.toFixed(1)}, at most ${most}`,
    budget: atMost(most, 30, "30"),
  };
}

/**
 * Simulates many nodes and one API server. Time stands still while requests are in flight. Draws
 * docs/install/fleet.svg.
 */
export const fleet: Work = {
  name: "fleet",
  summary: "500 nodes and an API server that starts, is away, forgets and is overloaded",
  run: async () => {
    const nodes = new Fleet(await startServer());
    try {
      const figures = await simulate(nodes);
      await writeFile(PLOT, fleetPlot(nodes.log.chapters, nodes.log.seconds));
      return figures;
    } finally {
      await nodes.stop();
    }
  },
};
