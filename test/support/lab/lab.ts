import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { execa } from "execa";
import { setup as requirePrivateNamespace } from "../private-namespace.ts";
import { type Agent, type ConnectionRequest, startAgent } from "./agent.ts";
import { kernelSettings } from "./kernel-settings.ts";
import type { NamespaceNamer } from "./links.ts";
import { addNamespaces, enterCommand, layLinks, namespacePath, removeNamespaces } from "./namespaces.ts";
import { type Outcome, outcomeOf, type Probe, type Tally } from "./outcome.ts";
import {
  addressesOf,
  type MachineName,
  machineNames,
  type NamespaceName,
  type ProbeSource,
  servedAddresses,
  servedPorts,
} from "./topology.ts";

/** Options for a command inside the lab. */
export interface RunOptions {
  /** Standard input. Default: empty. */
  readonly input?: string;
  /** Variables to add to the environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** Time until the command is killed, milliseconds. Default: 60,000. */
  readonly timeoutMs?: number;
}

/** The result of a command inside the lab. `exitCode` is undefined if a signal ended it. */
export interface RunResult {
  readonly exitCode: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

/** A command that runs in the background inside the lab. */
export interface RunningCommand {
  /** Its process. */
  readonly pid: number;
  /** Sends a signal. Does nothing if the command has ended. */
  kill(signal: NodeJS.Signals): void;
  /** Calls back with each line of standard output or standard error. */
  onLine(callback: (line: string) => void): void;
  /** Resolves when the command has ended, for whatever reason. */
  readonly ended: Promise<RunResult>;
}

/**
 * A node in a box: network namespaces for one Kubernetes node, its six pods, a second node with all other
 * pods, and an outside client (see topology.ts). Every endpoint address answers TCP and UDP on `servedPorts`.
 */
export interface Lab {
  /** Runs a command inside a namespace and waits for it. A failing command is a result, not an exception. */
  run(
    namespace: NamespaceName,
    argv: readonly [string, ...string[]],
    options?: RunOptions,
  ): Promise<RunResult>;
  /** Like {@link run}, but returns the command's output, and throws with its error output if it fails. */
  mustRun(
    namespace: NamespaceName,
    argv: readonly [string, ...string[]],
    options?: RunOptions,
  ): Promise<string>;
  /** Path of a namespace, for `nsenter --net`. */
  pathOf(namespace: NamespaceName): string;
  /** Runs a command inside the node, like {@link run} for `node`. */
  exec(argv: readonly [string, ...string[]], options?: RunOptions): Promise<RunResult>;
  /** Starts a command inside a namespace without waiting for it. `close` kills it if it still runs. */
  start(namespace: NamespaceName, argv: readonly [string, ...string[]], options?: RunOptions): RunningCommand;
  /**
   * Sends a transaction (JSON text) to `nft -j -f -` inside the node. Throws with nft's message if it is
   * refused.
   */
  loadTransaction(json: string): Promise<void>;
  /**
   * Makes each probe's connections, all sources at the same time. Returns the number of times of each answer,
   * by probe id.
   */
  observe(probes: readonly Probe[]): Promise<ReadonlyMap<string, Tally>>;
  /** Like {@link observe}, but returns summaries as in a scenario file, by probe id. */
  probe(probes: readonly Probe[]): Promise<ReadonlyMap<string, Outcome>>;
  /** Ends every process of the lab and removes its namespaces. */
  close(): Promise<void>;
}

const RESPONDER = fileURLToPath(new URL("./responder.pl", import.meta.url));

let labsMade = 0;

/**
 * Creates a lab with a unique name, so that several can exist side by side. Takes about a second.
 * Throws outside the private namespaces of scripts/in-namespace.sh, so that it never touches the host's.
 */
export async function createLab(): Promise<Lab> {
  requirePrivateNamespace();
  const prefix = `lab${process.pid}-${++labsMade}-`;
  const nameOf: NamespaceNamer = (namespace) => `${prefix}${namespace}`;
  await addNamespaces(nameOf);
  const lab = new NamespaceLab(nameOf);
  try {
    await Promise.all(machineNames.map((machine) => configure(lab, machine)));
    await layLinks(nameOf);
    await Promise.all(machineNames.map((machine) => serve(lab, machine)));
    return lab;
  } catch (error) {
    await lab.close();
    throw error;
  }
}

/** Changes a kernel setting for each pair of arguments, a value and a path. */
const CONFIGURE = 'while [ "$1" ]; do echo "$1" >"/proc/sys/net/$2"; shift 2; done';

async function configure(lab: Lab, machine: MachineName): Promise<void> {
  const settings = kernelSettings(machine).filter(
    ({ path, optional }) => !optional || existsSync(`/proc/sys/net/${path}`),
  );
  const pairs = settings.flatMap(({ value, path }) => [value, path]);
  await lab.mustRun(machine, ["sh", "-ec", CONFIGURE, "sh", ...pairs]);
}

/** Starts a machine's servers. Resolves when they listen. */
async function serve(lab: Lab, machine: MachineName): Promise<void> {
  const addresses = servedAddresses(machine);
  if (addresses.length === 0) return;
  const server = lab.start(machine, ["perl", RESPONDER, servedPorts.join(), addresses.join()]);
  const listens = new Promise<void>((resolve) => server.onLine((line) => line === "listens" && resolve()));
  const gone = server.ended.then(({ stderr }) => {
    throw new Error(`the servers of ${machine} ended: ${stderr}`);
  });
  gone.catch(() => undefined);
  await Promise.race([listens, gone]);
}

class NamespaceLab implements Lab {
  readonly #nameOf: NamespaceNamer;
  /** Those that have made connections. */
  readonly #agents = new Map<MachineName, Agent>();
  readonly #running = new Set<RunningCommand>();

  constructor(nameOf: NamespaceNamer) {
    this.#nameOf = nameOf;
  }

  pathOf(namespace: NamespaceName): string {
    return namespacePath(this.#nameOf(namespace));
  }

  run(
    namespace: NamespaceName,
    argv: readonly [string, ...string[]],
    options: RunOptions = {},
  ): Promise<RunResult> {
    return this.start(namespace, argv, { timeoutMs: 60_000, ...options }).ended;
  }

  async mustRun(
    namespace: NamespaceName,
    argv: readonly [string, ...string[]],
    options?: RunOptions,
  ): Promise<string> {
    const { exitCode, stdout, stderr } = await this.run(namespace, argv, options);
    if (exitCode !== 0) throw new Error(`${argv.join(" ")}: ${stderr}`);
    return stdout;
  }

  exec(argv: readonly [string, ...string[]], options?: RunOptions): Promise<RunResult> {
    return this.run("node", argv, options);
  }

  start(
    namespace: NamespaceName,
    argv: readonly [string, ...string[]],
    options: RunOptions = {},
  ): RunningCommand {
    const [program, ...enter] = enterCommand(this.#nameOf(namespace));
    const command = execa(program, [...enter, ...argv], {
      reject: false,
      all: true,
      input: options.input ?? "",
      env: options.env ?? {},
      timeout: options.timeoutMs ?? 0,
      // The default kills processes 5 s after SIGTERM, but a slow machine may need longer to end a daemon.
      forceKillAfterDelay: false,
    });
    const lines = createInterface({ input: command.all });
    const running: RunningCommand = {
      pid: command.pid ?? 0,
      kill: (signal) => void command.kill(signal),
      onLine: (callback) => void lines.on("line", callback),
      ended: command.then(({ exitCode, stdout, stderr }) => {
        this.#running.delete(running);
        return { exitCode, stdout, stderr };
      }),
    };
    this.#running.add(running);
    return running;
  }

  async loadTransaction(json: string): Promise<void> {
    await this.mustRun("node", ["nft", "-j", "-f", "-"], { input: json });
  }

  async observe(probes: readonly Probe[]): Promise<ReadonlyMap<string, Tally>> {
    const tallies = new Map<string, Tally>();
    const observeFrom = async (machine: MachineName) => {
      const own = probes.filter((probe) => machineOf(probe.from) === machine);
      const seen = await this.#agentOf(machine).observe(own.map(connectionOf));
      for (const [index, probe] of own.entries()) tallies.set(probe.id, seen[index] ?? {});
    };
    await Promise.all([...new Set(probes.map(({ from }) => machineOf(from)))].map(observeFrom));
    return tallies;
  }

  async probe(probes: readonly Probe[]): Promise<ReadonlyMap<string, Outcome>> {
    const tallies = await this.observe(probes);
    return new Map(probes.map((probe) => [probe.id, outcomeOf(probe, tallies.get(probe.id) ?? {})]));
  }

  async close(): Promise<void> {
    for (const command of this.#running) command.kill("SIGKILL");
    await Promise.all([...this.#running].map(({ ended }) => ended));
    await Promise.all([...this.#agents.values()].map((agent) => agent.stop()));
    await removeNamespaces(this.#nameOf);
  }

  #agentOf(machine: MachineName): Agent {
    const agent = this.#agents.get(machine) ?? startAgent(enterCommand(this.#nameOf(machine)));
    this.#agents.set(machine, agent);
    return agent;
  }
}

function machineOf(source: ProbeSource): MachineName {
  return source === "ext2" ? "ext" : source;
}

function connectionOf({ from, to, port, proto, n, wait }: Probe): ConnectionRequest {
  const own = addressesOf(from);
  return {
    to,
    port,
    proto,
    waitMs: (wait ?? 1.5) * 1000,
    // The node has several addresses, and the probe tests which one it uses.
    ...(from === "node" ? {} : { from: to.includes(":") ? own.v6 : own.v4 }),
    ...(n === undefined ? {} : { count: n }),
  };
}
