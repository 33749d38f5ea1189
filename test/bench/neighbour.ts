import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { apiService, apiSlice } from "../support/api-objects.ts";
import type { StubCluster } from "../support/stub-api/stub-cluster.ts";
import { clusterIP, laterPodIP, POD_PORT, SERVICE_PORT } from "./cluster-objects.ts";
import { ownProgram, pause } from "./programs.ts";

/** The address of the neighbour's Service, and those of its pods. Each pod in turn is the only endpoint. */
export const NEIGHBOUR_IP = clusterIP(60_000);
const PODS = [laterPodIP(300_000), laterPodIP(300_001)] as const;
const NAMESPACE = "neighbour";

/** Pause after a change has taken effect, and between two checks for this. Milliseconds. */
const BETWEEN = 50;
const LOOK_EVERY = 5;
/** Time to wait for a change before the scene is aborted, milliseconds. */
const PATIENCE = 20_000;

const now = (): number => performance.timeOrigin + performance.now();

/** The measurements of a neighbour. */
export interface NeighbourNews {
  /** Time from each change of an object until new connections followed it, milliseconds. */
  readonly lags: readonly number[];
  /** The reasons why connections were not answered. */
  readonly failures: readonly string[];
}

/**
 * The tenant that others may harm. It has an old Service whose only endpoint changes all the time, and a
 * client that connects all the time. Both pods always answer, so every failing connection is the proxy's
 * fault.
 */
export class Neighbour {
  readonly #cluster: StubCluster;
  readonly #client: ChildProcess;
  readonly #changing: Promise<void>;
  #lags: number[] = [];
  #failures: string[] = [];
  #pod = 0;
  /** The pending change. */
  #pending: { readonly since: number; readonly seen: () => void } | undefined;
  /** The time of the last change that has taken effect. */
  #lastSeen = 0;
  #isOver = false;

  /** Starts to change a Service of {@link putNeighbour} that is already served. */
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

  /** Resolves when a change made from now on has taken effect. @returns false if that takes too long */
  async settled(): Promise<boolean> {
    const began = now();
    while (now() < began + PATIENCE) {
      if (this.#lastSeen > began) return true;
      await pause(LOOK_EVERY);
    }
    return false;
  }

  /** Returns the measurements since the last call. A pending change counts with its time so far. */
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

/** Adds a neighbour's Service. */
export function putNeighbour(cluster: StubCluster): void {
  const service = apiService("old", { clusterIP: NEIGHBOUR_IP, ports: [{ port: SERVICE_PORT }] });
  cluster.put("services", { ...service, metadata: { ...service.metadata, namespace: NAMESPACE } });
  putEndpoint(cluster, 0);
}

function putEndpoint(cluster: StubCluster, pod: number): void {
  const slice = apiSlice("old", [PODS[pod] ?? ""], [{ port: SERVICE_PORT, targetPort: POD_PORT }]);
  cluster.put("endpointslices", { ...slice, metadata: { ...slice.metadata, namespace: NAMESPACE } });
}
