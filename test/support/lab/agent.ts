import { fileURLToPath } from "node:url";
import { execa } from "execa";
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

interface Reply {
  readonly id: number;
  readonly result?: readonly Tally[];
  readonly error?: string;
}

/** The process that makes connections inside one network namespace; see agent.mjs. */
export interface Agent {
  /**
   * Makes connections. Returns the number of times of each answer, for each request in order. Throws the
   * agent's error, or the reason for its end.
   */
  observe(connections: readonly ConnectionRequest[]): Promise<readonly Tally[]>;
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
  const waiting = new Map<number, (reply: Reply) => void>();
  const dispatch = async () => {
    for await (const message of agent.getEachMessage()) {
      const reply = message as unknown as Reply;
      waiting.get(reply.id)?.(reply);
      waiting.delete(reply.id);
    }
  };
  // When the agent ends, its own error says more.
  dispatch().catch(() => undefined);

  async function observe(connections: readonly ConnectionRequest[]): Promise<readonly Tally[]> {
    const id = ++lastId;
    const reply = new Promise<Reply>((resolve) => waiting.set(id, resolve));
    await agent.sendMessage({ id, connections: [...connections] });
    const { result = [], error } = await Promise.race([reply, gone]);
    if (error !== undefined) throw new Error(`the lab's agent (${enter.join(" ")}): ${error}`);
    return result;
  }

  return {
    observe,
    async stop() {
      agent.kill("SIGKILL");
      await agent;
    },
  };
}
