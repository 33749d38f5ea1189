import { fileURLToPath } from "node:url";
import type { Lab, RunningCommand } from "./lab/lab.ts";
import type { MachineName } from "./lab/topology.ts";

const program = fileURLToPath(new URL("./constant-flows.mjs", import.meta.url));

/** A client of {@link ConstantFlows}. */
export interface FlowClient {
  readonly machine: MachineName;
  /** One of the machine's addresses. */
  readonly source: string;
  readonly address: string;
  readonly port: number;
  /** Whether its flows are answered: then more of them follow each other faster. */
  readonly isServed: boolean;
}

/** The flows of a client, and those that were answered. */
export interface FlowCounts {
  readonly sent: number;
  readonly answered: number;
}

/** A UDP client that starts thousands of flows a second, each with one packet: a single lost one shows. */
export class ConstantFlows {
  readonly #command: RunningCommand;

  private constructor(command: RunningCommand) {
    this.#command = command;
  }

  /** Starts a client and waits until it sends. */
  static async start(
    lab: Lab,
    { machine, source, address, port, isServed }: FlowClient,
  ): Promise<ConstantFlows> {
    // A busy machine may answer late. A client that nobody answers would wait as long with each flow.
    const [atOnce, waitMs] = isServed ? [12, 20_000] : [200, 500];
    const args = [source, address, port, atOnce, waitMs].map(String);
    const command = lab.start(machine, [process.execPath, program, ...args]);
    await new Promise<void>((resolve) => command.onLine(() => resolve()));
    return new ConstantFlows(command);
  }

  /** Waits for the last answers. */
  async end(): Promise<FlowCounts> {
    this.#command.kill("SIGTERM");
    const { stdout, stderr } = await this.#command.ended;
    const last = stdout.trim().split("\n").at(-1) ?? "";
    if (!last.startsWith("{")) throw new Error(`no counts: ${stdout} ${stderr}`);
    return JSON.parse(last) as FlowCounts;
  }
}
