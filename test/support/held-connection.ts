import { fileURLToPath } from "node:url";
import { expect, vi } from "vitest";
import type { Lab } from "./lab/lab.ts";
import type { NamespaceName } from "./lab/topology.ts";

const program = fileURLToPath(new URL("./held-connection.mjs", import.meta.url));

/** Starts a server on a machine of the lab that sends back what it gets. Resolves when it listens. */
export async function serveEcho(lab: Lab, machine: NamespaceName, port: number): Promise<void> {
  const server = lab.start(machine, [process.execPath, program, "serve", String(port)]);
  await new Promise<void>((resolve) => server.onLine(() => resolve()));
}

/** A TCP connection that is used all the time. */
export class HeldConnection {
  readonly #lines: string[] = [];

  private constructor(lab: Lab, machine: NamespaceName, address: string, port: number) {
    const client = lab.start(machine, [process.execPath, program, "hold", address, String(port)]);
    client.onLine((line) => this.#lines.push(line));
  }

  /** Opens one; resolves when it has been answered. */
  static async open(lab: Lab, machine: NamespaceName, address: string, port: number): Promise<HeldConnection> {
    const held = new HeldConnection(lab, machine, address, port);
    await held.stillAnswered();
    return held;
  }

  /** Why it is broken, in node's words: `ECONNRESET`; undefined while it is not. */
  get brokenBy(): string | undefined {
    return this.#lines.find((line) => /^broken [A-Z]/.test(line))?.slice("broken ".length);
  }

  /** Waits until it has been answered anew; throws if it is broken. */
  async stillAnswered(): Promise<void> {
    const before = this.#lines.length;
    await vi.waitFor(() => expect(this.#lines.slice(before).length).toBeGreaterThan(1), { timeout: 20_000 });
    expect(this.#lines.filter((line) => line.startsWith("broken"))).toEqual([]);
  }
}
