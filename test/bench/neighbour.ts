import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { apiService, apiSlice } from "../support/api-objects.ts";
import type { StubCluster } from "../support/stub-api/stub-cluster.ts";
import { clusterIP, laterPodIP, POD_PORT, SERVICE_PORT } from "./cluster-objects.ts";
import { ownProgram, pause } from "./programs.ts";

/** The address of the neighbour's Service, and those of its pods, of which one is its endpoint by turns. */
export const NEIGHBOUR_IP = clusterIP(60_000);
const PODS = [laterPodIP(300_000), laterPodIP(300_001)] as const;
const NAMESPACE = "neighbour";

/** From one change that is in force to the next, and between two looks at whether one is, milliseconds. */
const BETWEEN = 50;
const LOOK_EVERY = 5;
/** How long the neighbour waits for a change before the daemon is given up, milliseconds. */
const PATIENCE = 20_000;

const now = (): number => performance.timeOrigin + performance.now();

/** What happened to a neighbour. */
export interface NeighbourNews {
  /** From each change of an object until new connections went by it, milliseconds. */
  readonly lags: readonly number[];
  /** Why connections were not answered. */
  readonly failures: readonly string[];
}

/**
 * The tenant that pays for others: an old Service of one endpoint, which is another one all the time, with a client that
 * connects all the time. Both pods always answer, so that every connection that fails is the proxy's fault.
 */
export class Neighbour {
  readonly #cluster: StubCluster;
  readonly #client: ChildProcess;
  readonly #changing: Promise<void>;
  #lags: number[] = [];
  #failures: string[] = [];
  #pod = 0;
  /** The change that is waited for. */
  #pending: { readonly since: number; readonly seen: () => void } | undefined;
  /** When the last change was made that is in force. */
  #lastSeen = 0;
  #isOver = false;

  /** Begins to change a Service of {@link putNeighbour} that is served. */
  constructor(cluster: StubCluster) {
    this.#cluster = cluster;
    const [program = "", ...args] = ownProgram(
      "neighbour-program.ts",
      NEIGHBOUR_IP,
      `${SERVICE_PORT}`,
      ...PODS,
    );
    this.#client = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
    const lines = createInterface({ input: this.#client.stdout as NodeJS.ReadableStream });
    lines.on("line", (line) => this.#hear(JSON.parse(line)));
    this.#changing = once(lines, "line").then(() => this.#change());
  }

  /** Resolves when a change that is made from now on is in force. @returns false when that takes too long */
  async settled(): Promise<boolean> {
    const began = now();
    while (now() < began + PATIENCE) {
      if (this.#lastSeen > began) return true;
      await pause(LOOK_EVERY);
    }
    return false;
  }

  /** What happened since the last call; a change that is not in force yet counts as long as it has waited. */
  take(): NeighbourNews {
    const late = this.#pending === undefined ? [] : [now() - this.#pending.since];
    const news = { lags: [...this.#lags, ...late], failures: this.#failures };
    this.#lags = [];
    this.#failures = [];
    return news;
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    this.#client.stdin?.end();
    this.#pending?.seen();
    await this.#changing;
  }

  async #change(): Promise<void> {
    while (!this.#isOver) {
      this.#pod = 1 - this.#pod;
      await new Promise<void>((resolve) => {
        this.#pending = { since: now(), seen: resolve };
        putEndpoint(this.#cluster, this.#pod);
      });
      await pause(BETWEEN);
    }
  }

  #hear({ pod, failed, at }: { readonly pod?: number; readonly failed?: string; readonly at: number }): void {
    if (failed !== undefined) this.#failures.push(failed);
    if (this.#pending === undefined || pod !== this.#pod) return;
    const { since, seen } = this.#pending;
    this.#pending = undefined;
    this.#lastSeen = since;
    this.#lags.push(Math.max(0, at - since));
    seen();
  }
}

/** Makes a neighbour's Service. */
export function putNeighbour(cluster: StubCluster): void {
  const service = apiService("old", { clusterIP: NEIGHBOUR_IP, ports: [{ port: SERVICE_PORT }] });
  cluster.put("services", { ...service, metadata: { ...service.metadata, namespace: NAMESPACE } });
  putEndpoint(cluster, 0);
}

function putEndpoint(cluster: StubCluster, pod: number): void {
  const slice = apiSlice("old", [PODS[pod] ?? ""], [{ port: SERVICE_PORT, targetPort: POD_PORT }]);
  cluster.put("endpointslices", { ...slice, metadata: { ...slice.metadata, namespace: NAMESPACE } });
}
