import { fileURLToPath } from "node:url";
import { expect, vi } from "vitest";
import type { Lab, RunningCommand } from "./lab/lab.ts";
import type { NamespaceName } from "./lab/topology.ts";
import { PATIENCE } from "./patience.ts";

const program = fileURLToPath(new URL("./held-connection.mjs", import.meta.url));

/** Starts an echo server for some ports on a machine of the lab. Resolves when it listens. */
export async function serveEcho(
  lab: Lab,
  machine: NamespaceName,
  ...ports: readonly number[]
): Promise<void> {
  const server = lab.start(machine, [process.execPath, program, "serve", ...ports.map(String)]);
  await new Promise<void>((resolve) => server.onLine(() => resolve()));
}

/** The client and server of a connection. */
export type HeldEnds = readonly [machine: NamespaceName, address: string, port: number];

/** A TCP connection that is used continuously, except while it is paused. */
export class HeldConnection {
  readonly #client: RunningCommand;
  readonly #lines: string[] = [];

  private constructor(client: RunningCommand, index: number) {
    this.#client = client;
    client.onLine((line) => {
      if (line.startsWith(`${index} `)) this.#lines.push(line.slice(`${index} `.length));
    });
  }

  /** Opens a connection. Resolves after its first answer. */
  static async open(lab: Lab, ...ends: HeldEnds): Promise<HeldConnection> {
    const [held] = await HeldConnection.openAll(lab, [ends]);
    return held as HeldConnection;
  }

  /** Opens several connections, with one process for each machine. Resolves when all have been answered. */
  static async openAll(lab: Lab, all: readonly HeldEnds[]): Promise<readonly HeldConnection[]> {
    const held = new Map<HeldEnds, HeldConnection>();
    for (const machine of new Set(all.map(([name]) => name))) {
      const own = all.filter(([name]) => name === machine);
      const targets = own.flatMap(([, address, port]) => [address, String(port)]);
      const client = lab.start(machine, [process.execPath, program, "hold", ...targets]);
      for (const [index, ends] of own.entries()) held.set(ends, new HeldConnection(client, index));
    }
    await Promise.all([...held.values()].map((one) => one.stillAnswered()));
    return all.flatMap((ends) => held.get(ends) ?? []);
  }

  /** Node's error code such as `ECONNRESET` if the connection is broken, otherwise undefined. */
  get brokenBy(): string | undefined {
    return this.#broken.find((line) => /^broken [A-Z]/.test(line))?.slice("broken ".length);
  }

  /** Waits for the answer to a request sent from now on. Throws if the connection is broken. */
  async stillAnswered(): Promise<void> {
    const before = this.#lines.length;
    // The first answer may belong to an earlier request.
    const isNews = () => this.#lines.slice(before).length > 1 || this.#broken.length > 0;
    await vi.waitFor(() => expect(isNews()).toBe(true), PATIENCE);
    expect(this.#broken).toEqual([]);
  }

  /** Pauses all connections of its machine. Resolves once all requests of this one have been answered. */
  async rest(): Promise<void> {
    this.#client.kill("SIGUSR2");
    await vi.waitFor(() => expect(this.#lines.at(-1)).toBe("resting"), PATIENCE);
  }

  /** Closes all connections of its process. */
  async close(): Promise<void> {
    this.#client.kill("SIGTERM");
    await this.#client.ended;
  }

  /** Continues to use these connections. */
  wake(): void {
    this.#client.kill("SIGUSR2");
  }

  /** Ends the process of its machine, and with it all connections that were opened together. */
  async end(): Promise<void> {
    this.#client.kill("SIGKILL");
    await this.#client.ended;
  }

  get #broken(): readonly string[] {
    return this.#lines.filter((line) => line.startsWith("broken"));
  }
}
