import { createWriteStream, existsSync, type WriteStream } from "node:fs";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { RESOURCE_NAMES } from "../../src/kube/source.ts";
import { childrenOf } from "../bench/memory.ts";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { bundle, townFlags } from "../support/command.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import { serveEcho } from "../support/held-connection.ts";
import { IMAGE_ENVIRONMENT } from "../support/image-environment.ts";
import { KernelWatch } from "../support/kernel-watch.ts";
import { putSteady } from "../support/kill-rounds.ts";
import type { RunningCommand } from "../support/lab/lab.ts";
import type { Probe } from "../support/lab/outcome.ts";
import type { StubCluster } from "../support/stub-api/stub-cluster.ts";
import { loadTown } from "../support/stub-api/town.ts";
import { Churn } from "./churn.ts";
import { ECHO_PORT, ECHOING, putTargets } from "./targets.ts";

/** Where a run leaves the daemon's log. */
export const FOLDER = fileURLToPath(new URL("../../.cache/soak", import.meta.url));

/** The options of the rules, for the daemon and for what its rules are compared with. */
export const PROXY_FLAGS: readonly string[] = [...townFlags, "--features=all", "--passive-health-check=on"];

const PRELOAD = fileURLToPath(new URL("./preload.mjs", import.meta.url));
const { NODE_OPTIONS = "", MALLOC_ARENA_MAX = "" } = IMAGE_ENVIRONMENT;
const ENVIRONMENT = { NODE_OPTIONS, MALLOC_ARENA_MAX, SOAK_FOLDER: FOLDER };

/** Between two looks at whether something is so, milliseconds. */
const LOOK_EVERY = 50;

/** Milliseconds since 1970, by a clock that all processes of the machine share and that is never set. */
export function now(): number {
  return performance.timeOrigin + performance.now();
}

/**
 * All that faults are injected into: a node with the daemon, an API server with objects that change, other
 * machines.
 */
export class Stage {
  readonly lab: DaemonLab;
  /** The objects of the API server, also while it is away. */
  readonly cluster: StubCluster;
  readonly churn: Churn;
  /** Warnings and errors of the daemon's log by their messages. */
  readonly warnings = new Map<string, number>();
  readonly #log: WriteStream;
  readonly #onProblem: (problem: string) => void;
  #kernel: KernelWatch | undefined;
  #daemon: RunningCommand | undefined;
  #canaries = 0;

  private constructor(lab: DaemonLab, random: () => number, onProblem: (problem: string) => void) {
    this.lab = lab;
    this.cluster = lab.cluster;
    this.churn = new Churn(this.cluster, random);
    this.#log = createWriteStream(join(FOLDER, "daemon.log"));
    this.#onProblem = onProblem;
  }

  /**
   * Makes one with a daemon that has synced.
   * @param random draws the changes of objects
   * @param onProblem told when the daemon ends by itself
   */
  static async open(random: () => number, onProblem: (problem: string) => void): Promise<Stage> {
    await rm(FOLDER, { recursive: true, force: true });
    await mkdir(FOLDER, { recursive: true });
    const lab = await DaemonLab.create();
    const stage = new Stage(lab, random, onProblem);
    loadTown(stage.cluster);
    putSteady(stage.cluster);
    putTargets(stage.cluster);
    stage.churn.reset();
    for (const machine of ECHOING) await serveEcho(lab.lab, machine, ECHO_PORT);
    stage.start();
    if (await stage.isServing(60_000)) {
      stage.#kernel = await KernelWatch.start(onProblem, await lab.socat());
      return stage;
    }
    await stage.close();
    throw new Error(`the daemon does not come to a first sync: see ${FOLDER}/daemon.log`);
  }

  /** The daemon's process. */
  get pid(): number {
    return this.#daemon?.pid ?? 0;
  }

  /** Hears what changes in the node's nftables. */
  get kernel(): KernelWatch {
    if (this.#kernel === undefined) throw new Error("nobody listens to the kernel");
    return this.#kernel;
  }

  /** The nft processes that the daemon has now. */
  nftPids(): readonly number[] {
    return childrenOf(this.pid);
  }

  /** Starts the daemon. */
  start(): void {
    const daemon = this.run("--metrics-bind-address=0.0.0.0:10249");
    this.#daemon = daemon;
    daemon.onLine((line) => this.#heard(line));
    void daemon.ended.then(({ exitCode, stderr }) => {
      if (this.#daemon !== daemon) return;
      this.#onProblem(`the daemon ended with ${exitCode ?? "a signal"}: ${stderr.slice(-500)}`);
      this.start();
    });
  }

  /** Starts a daemon beside the one there may be. */
  run(...flags: readonly string[]): RunningCommand {
    const words = ["--import", PRELOAD, bundle, "run", ...PROXY_FLAGS, "--logging-format=json"];
    const argv = [process.execPath, ...words, `--master=${this.lab.master}`, ...flags] as const;
    return this.lab.lab.start("node", argv as [string, ...string[]], { env: ENVIRONMENT });
  }

  /** Kills the daemon; resolves when it is gone. */
  async kill(): Promise<void> {
    const daemon = this.#daemon;
    this.#daemon = undefined;
    daemon?.kill("SIGKILL");
    await daemon?.ended;
  }

  /**
   * Sets the daemon's wall clock, and that of each daemon to come. @param offset milliseconds that it is
   * ahead
   */
  async setClock(offset: number): Promise<void> {
    await writeFile(join(FOLDER, "clock-offset"), String(offset));
  }

  /**
   * Has the daemon collect its garbage. @returns what its memory is then; `anonymous`: resident without a
   * file, `code`: compiled code in the heap, bytes
   */
  async collectGarbage(): Promise<
    NodeJS.MemoryUsage & { readonly anonymous: number; readonly code: number }
  > {
    const file = join(FOLDER, "heap");
    await rm(file, { force: true });
    process.kill(this.pid, "SIGUSR2");
    await this.until(async () => existsSync(file), 30_000);
    return JSON.parse(await readFile(file, "utf8"));
  }

  /** Ends all watches, after the server has forgotten where they were. */
  expire(): void {
    for (const resource of RESOURCE_NAMES) {
      this.cluster.compact(resource);
      for (const watch of this.cluster.watches(resource)) watch.end();
    }
  }

  /**
   * Whether connections are answered now. This is asked by connecting, not by listing: while the rules change
   * all the time, nft does not come to the end of a long map (1.1.3).
   */
  async isAnswered(probes: readonly Probe[]): Promise<boolean> {
    const tallies = await this.lab.lab.observe(probes);
    return probes.every(({ id, port }) => {
      const [answer = ""] = Object.keys(tallies.get(id) ?? {});
      // An echo server says nothing by itself: a connection that is open and silent is one that was made.
      return answer.includes(" ") || (port === ECHO_PORT && answer === "timeout");
    });
  }

  /**
   * Whether a fault is over for good: a Service made now gets its rules within a time, and the daemon is
   * healthy.
   */
  async isServing(patienceMs: number): Promise<boolean> {
    const number = this.#canaries++;
    const clusterIP = `10.96.21.${1 + (number % 250)}`;
    const service = this.cluster.put("services", apiService(`canary-${number}`, { clusterIP }));
    const slice = this.cluster.put("endpointslices", apiSlice(`canary-${number}`, ["10.244.1.11"]));
    try {
      const probe = {
        id: "canary",
        from: "pod2",
        to: clusterIP,
        port: 80,
        proto: "tcp",
        n: 1,
        // The first one comes before the rules: its client would wait for an answer that nobody gives.
        wait: 0.1,
      } as const;
      return await this.until(async () => {
        if (!(await this.isAnswered([probe]))) return false;
        const health = await this.lab.get(10256, "/healthz").catch(() => undefined);
        return health?.status === 200;
      }, patienceMs);
    } finally {
      this.cluster.remove("services", service);
      this.cluster.remove("endpointslices", slice);
    }
  }

  /** Waits until something is so. @returns whether it was so in time */
  async until(isSo: () => Promise<boolean>, patienceMs: number): Promise<boolean> {
    const deadline = now() + patienceMs;
    for (;;) {
      if (await isSo()) return true;
      if (now() > deadline) return false;
      await sleep(LOOK_EVERY);
    }
  }

  /** Ends everything. */
  async close(): Promise<void> {
    this.churn.stop();
    this.#daemon = undefined;
    this.#kernel?.stop();
    await this.lab.close();
    this.#log.end();
  }

  #heard(line: string): void {
    this.#log.write(`${line}\n`);
    // The last line of a daemon that is killed may be cut.
    if (!line.startsWith("{") || !line.endsWith("}")) return;
    const { level, msg } = JSON.parse(line) as { readonly level: string; readonly msg: string };
    if (level === "info" || level === "debug") return;
    const message = `${level}: ${msg}`;
    this.warnings.set(message, (this.warnings.get(message) ?? 0) + 1);
  }
}
