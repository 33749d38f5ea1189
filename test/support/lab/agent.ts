import { fileURLToPath } from "node:url";
import { execa } from "execa";
import type { KernelSetting } from "./kernel-settings.ts";
import type { Probe, Tally } from "./outcome.ts";

/** Connections that an agent makes. `from` is the address to bind to; if absent, any. */
export interface ConnectionRequest {
  readonly to: string;
  readonly port: number;
  readonly proto: Probe["proto"];
  readonly from?: string;
  readonly count?: number;
  readonly waitMs: number;
}

interface Requests {
  readonly configure: {
    readonly parameters: { readonly settings: readonly KernelSetting[] };
    readonly result: null;
  };
  readonly listen: {
    readonly parameters: { readonly addresses: readonly string[]; readonly ports: readonly number[] };
    readonly result: null;
  };
  readonly observe: {
    readonly parameters: { readonly connections: readonly ConnectionRequest[] };
    readonly result: readonly Tally[];
  };
}

interface Reply<Result> {
  readonly id: number;
  readonly result?: Result;
  readonly error?: string;
}

/** The lab's process inside one network namespace; see agent.mjs. */
export interface Agent {
  /** Sends one request and returns its result. Throws the agent's error, or the reason for its end. */
  ask<Kind extends keyof Requests>(
    kind: Kind,
    parameters: Requests[Kind]["parameters"],
  ): Promise<Requests[Kind]["result"]>;
  /** Ends the process. Resolves when it has ended. */
  stop(): Promise<void>;
}

const program = fileURLToPath(new URL("./agent.mjs", import.meta.url));

/**
 * Starts an agent. `enter` is the command (program first) that runs another command in the agent's namespace.
 */
export function startAgent(enter: readonly [string, ...string[]]): Agent {
  const [command, ...rest] = enter;
  const agent = execa(command, [...rest, process.execPath, program], {
    ipc: true,
    stdin: "ignore",
    reject: false,
  });
  const gone = agent.then(({ stderr, exitCode }) => {
    throw new Error(`the lab's agent (${enter.join(" ")}) ended with ${exitCode ?? "a signal"}: ${stderr}`);
  });
  // Avoids an unhandled rejection if no request waits when the agent ends.
  gone.catch(() => undefined);
  let lastId = 0;

  async function ask<Result>(request: object): Promise<Result> {
    const id = ++lastId;
    const reply = agent.getOneMessage({ filter: (message) => (message as Reply<Result>).id === id });
    // If the agent has ended, this fails too, but the agent's own error says more.
    reply.catch(() => undefined);
    await agent.sendMessage({ id, request });
    const { result, error } = (await Promise.race([reply, gone])) as Reply<Result>;
    if (error !== undefined) throw new Error(`the lab's agent (${enter.join(" ")}): ${error}`);
    return result as Result;
  }

  return {
    ask: (kind, parameters) => ask({ kind, ...parameters }),
    async stop() {
      agent.kill("SIGKILL");
      await agent;
    },
  };
}
