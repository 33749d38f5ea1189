import { fileURLToPath } from "node:url";
import { expect, vi } from "vitest";
import type { Lab } from "./lab/lab.ts";
import type { NamespaceName } from "./lab/topology.ts";
import { PATIENCE } from "./patience.ts";

const program = fileURLToPath(new URL("./held-flow.mjs", import.meta.url));

/** A UDP client that keeps its flow alive by sending continuously from one socket. */
export class HeldFlow {
  /** The answering addresses or `nobody`, one entry for each change. */
  readonly answers: string[] = [];

  constructor(lab: Lab, machine: NamespaceName, address: string, port: number) {
    const client = lab.start(machine, [process.execPath, program, address, String(port)]);
    client.onLine((line) => this.answers.push(line));
  }

  /** Waits until this address answers. */
  async answeredBy(who: string): Promise<void> {
    await vi.waitFor(() => expect(this.answers.at(-1)).toBe(who), PATIENCE);
  }
}
