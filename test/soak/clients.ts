import { fileURLToPath } from "node:url";
import type { Lab, RunningCommand } from "../support/lab/lab.ts";
import type { MachineName } from "../support/lab/topology.ts";
import type { Failure } from "./attribution.ts";
import { type ConnectionKind, frontendOf, TARGETS } from "./targets.ts";

const program = fileURLToPath(new URL("./client.mjs", import.meta.url));

/** The machines that make connections, and the kinds that each makes. */
const CLIENTS: readonly (readonly [MachineName, readonly ConnectionKind[]])[] = [
  ["pod2", ["cluster-ip", "held", "udp"]],
  ["node", ["cluster-ip"]],
  ["ext", ["node-port"]],
];

/** A line of a client. */
interface ClientLine {
  readonly made?: Readonly<Record<string, number>>;
  readonly failed?: {
    readonly name: string;
    readonly from: number;
    readonly until: number;
    readonly error: string;
  };
}

/** Clients that make connections to all targets, all the time. */
export class Clients {
  readonly failures: Failure[] = [];
  readonly #running: readonly RunningCommand[];
  /** The connections of each client, by the target's name. */
  readonly #made: Readonly<Record<string, number>>[] = [];

  /** Starts them. */
  constructor(lab: Lab) {
    this.#running = CLIENTS.map(([machine, kinds], index) => {
      const targets = TARGETS.filter(({ kind }) => kinds.includes(kind));
      const words = targets.map((target) => ({
        name: target.name,
        kind: target.kind,
        ...frontendOf(target),
      }));
      const client = lab.start(machine, [process.execPath, program, JSON.stringify(words)]);
      client.onLine((line) => {
        // Node may have something to say, too.
        if (!line.startsWith("{")) return;
        const { made, failed } = JSON.parse(line) as ClientLine;
        if (made !== undefined) this.#made[index] = made;
        const target = targets.find(({ name }) => name === failed?.name);
        if (failed !== undefined && target !== undefined)
          this.failures.push({ ...failed, target, client: machine });
      });
      return client;
    });
  }

  /** How many connections of a kind have been made. */
  made(kind: ConnectionKind): number {
    const names = TARGETS.filter((target) => target.kind === kind).map(({ name }) => name);
    return this.#made
      .flatMap((made) => names.map((name) => made[name] ?? 0))
      .reduce((sum, one) => sum + one, 0);
  }

  /** Ends them. */
  async stop(): Promise<void> {
    for (const client of this.#running) client.kill("SIGTERM");
    await Promise.all(this.#running.map(({ ended }) => ended));
  }
}
