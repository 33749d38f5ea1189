import { fileURLToPath } from "node:url";
import { expect, vi } from "vitest";
import type { Lab } from "./lab/lab.ts";
import type { NamespaceName } from "./lab/topology.ts";
import { PATIENCE } from "./patience.ts";

const program = fileURLToPath(new URL("./held-flow.mjs", import.meta.url));

/** A UDP client that sends continuously from one socket and so keeps its flow alive. */
export class HeldFlow {
  /** Answering addresses, one entry for each change: an address or `nobody`. */
  readonly answers: string[] = [];

  constructor(lab: Lab, machine: NamespaceName, address: string, port: number) {
    const client = lab.start(machine, [process.execPath, program, address, String(port)]);
    client.onLine((line) => this.answers.push(line));
  }

  /** Waits until this one answers. */
  async answeredBy(who: string): Promise<void> {
    await vi.waitFor(() => expect(this.answers.at(-1)).toBe(who), PATIENCE);
  }
}
