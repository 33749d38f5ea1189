import { type ChildProcess, spawn } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { IMAGE_ENVIRONMENT } from "../support/image-environment.ts";
import { CLUSTER_CIDR, NODE_NAME } from "./cluster-objects.ts";
import { MemoryWatch } from "./memory.ts";
import { nftProxy, pause } from "./programs.ts";

const HEALTHZ = "127.0.0.1:20256";
const METRICS = "127.0.0.1:20249";
/** The daemon's socket for commands. It differs from the default, which a daemon of this machine may use. */
export const DAEMON_SOCKET = join(tmpdir(), `nft-proxy-bench-${process.pid}.sock`);

const PATIENCE = 120_000;
const BETWEEN_REQUESTS = 2;

/** `nft-proxy run` with every feature, in its own process with the image's environment. */
export class DaemonProcess {
  readonly memory: MemoryWatch;
  readonly #child: ChildProcess;
  #log = "";
  #logLines = 0;

  /** @param master the API server's URL */
  constructor(master: string, ...args: readonly string[]) {
    const [program = "", ...rest] = nftProxy(
      "run",
      `--master=${master}`,
      `--hostname-override=${NODE_NAME}`,
      `--cluster-cidr=${CLUSTER_CIDR}`,
      `--healthz-bind-address=${HEALTHZ}`,
      `--metrics-bind-address=${METRICS}`,
      `--daemon-socket=${DAEMON_SOCKET}`,
      "--features=all",
      ...args,
    );
    const env = { ...process.env, ...IMAGE_ENVIRONMENT, PATH: process.env.PATH };
    this.#child = spawn(program, rest, { stdio: ["ignore", "ignore", "pipe"], env });
    this.#child.stderr?.on("data", (chunk) => {
      this.#log = (this.#log + chunk).slice(-4000);
      this.#logLines += String(chunk).split("\n").length - 1;
    });
    this.memory = new MemoryWatch(this.pid);
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** The number of lines that it has logged. */
  get logLines(): number {
    return this.#logLines;
  }

  /** The end of its log. */
  get lastLog(): string {
    return this.#log;
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** Resolves when the kernel has the cluster's rules for the first time. */
  async synced(): Promise<void> {
    const until = performance.now() + PATIENCE;
    while (performance.now() < until && this.#child.exitCode === null) {
      const lastUpdated = await lastSync();
      if (lastUpdated !== undefined && !lastUpdated.startsWith("0001")) return;
      await pause(20);
    }
    throw new Error(`nft-proxy run does not come to a first sync:\n${this.#log}`);
  }

  /** Returns the number of syncs so far. */
  async syncs(): Promise<number> {
    const text = await (await fetch(`http://${METRICS}/metrics`)).text();
    const line = /^kubeproxy_sync_proxy_rules_duration_seconds_count\{ip_family="IPv4"\} (\d+)/m.exec(text);
    if (line === null) throw new Error("the metrics do not say how many syncs there were");
    return Number(line[1]);
  }

  /** Returns true if changes wait for a sync, or for a later one. */
  async hasPending(): Promise<boolean> {
    const text = await (await fetch(`http://${METRICS}/metrics`)).text();
    return /^kubeproxy_sync_proxy_rules_service_changes_pending(\{.*\})? [1-9]/m.test(text);
  }

  /** Returns the time of the last comparison of the kernel with the desired rules, from /livez. */
  async lastVerified(): Promise<string | undefined> {
    return ((await (await fetch(`http://${HEALTHZ}/livez`)).json()) as { lastVerified?: string })
      .lastVerified;
  }

  /** Requests /livez repeatedly until a promise resolves. @returns the time of each answer, milliseconds */
  async waits(until: Promise<unknown>): Promise<readonly number[]> {
    let isOver = false;
    void until.finally(() => {
      isOver = true;
    });
    const times: number[] = [];
    while (!isOver) {
      const started = performance.now();
      await this.lastVerified();
      times.push(performance.now() - started);
      await pause(BETWEEN_REQUESTS);
    }
    await until;
    return times;
  }

  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.#child.on("close", resolve));
    if (this.#child.exitCode === null) {
      this.#child.kill();
      await ended;
    }
  }
}

async function lastSync(): Promise<string | undefined> {
  try {
    const answer = (await (await fetch(`http://${HEALTHZ}/healthz`)).json()) as {
      status?: { IPv4?: { lastUpdated?: string } };
    };
    return answer.status?.IPv4?.lastUpdated;
  } catch {
    return undefined;
  }
}
