import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ByFamily, byFamily, FAMILIES } from "../base/family.ts";
import { familyOf } from "../model/ip.ts";
import { type StreamLines, streamLines } from "./stream-lines.ts";
import { familyArguments, parseConnection, type TrackedConnection } from "./tracked-connections.ts";

/** A UDP flow in the kernel's conntrack table. */
export interface UdpFlow extends Pick<TrackedConnection, "client" | "destination" | "replySource"> {
  /** The conntrack zone; undefined for the default one. */
  readonly zone: number | undefined;
  /** Its packets take the fast path, past connection tracking. */
  readonly isOffloaded: boolean;
}

/** The kernel's conntrack table. */
export interface FlowTable {
  /**
   * Yields every UDP flow of both families.
   * @throws AppError HOST when the table cannot be listed
   */
  udpFlows(): AsyncIterable<UdpFlow>;
  /**
   * Deletes flows. Resolves with their number.
   * @throws AppError HOST when they cannot be deleted
   */
  deleteFlows(flows: readonly UdpFlow[]): Promise<ByFamily<number>>;
}

/** {@link FlowTable} through conntrack-tools 1.4.7 or newer. */
export class Conntrack implements FlowTable {
  readonly #path: string;
  readonly #stream: StreamLines;

  /** @param path path or name of the program */
  constructor(path: string, stream: StreamLines = streamLines) {
    this.#path = path;
    this.#stream = stream;
  }

  async *udpFlows(): AsyncIterable<UdpFlow> {
    for (const family of FAMILIES) {
      for await (const line of this.#stream(this.#path, ["-L", ...familyArguments(family), "-p", "udp"])) {
        const flow = parseFlow(line);
        if (flow !== undefined) yield flow;
      }
    }
  }

  /**
   * By one process, which reads a file: conntrack opens /dev/stdin for `--load-file -`, which cannot be opened where it is
   * the socket that Node.js gives to a child process (1.4.8).
   */
  async deleteFlows(flows: readonly UdpFlow[]): Promise<ByFamily<number>> {
    const directory = await mkdtemp(join(tmpdir(), "nft-proxy-flows-"));
    try {
      const file = join(directory, "flows");
      await writeFile(file, flows.map((flow) => `${expiry(flow).join(" ")}\n`).join(""));
      for await (const _ of this.#stream(this.#path, ["--load-file", file]));
      if (flows.some(({ isOffloaded }) => isOffloaded)) await this.#evict();
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
    return byFamily((family) => flows.filter(({ client }) => familyOf(client.address) === family).length);
  }

  /**
   * Has the kernel delete the flows that have no time to live, by listing them. No packet of an offloaded one comes by
   * where that is noticed otherwise, and its flow table keeps it until it is deleted (Linux 5.10 to 7.2).
   */
  async #evict(): Promise<void> {
    for await (const _ of this.udpFlows());
  }
}

/** Parses a line of `conntrack -L`; returns undefined for any line that is no flow. */
export function parseFlow(line: string): UdpFlow | undefined {
  const connection = parseConnection(line);
  if (connection === undefined) return undefined;
  const { client, destination, replySource, state } = connection;
  const zone = / zone=(\d+)/.exec(line)?.[1];
  return {
    client,
    destination,
    replySource,
    zone: zone === undefined ? undefined : Number(zone),
    isOffloaded: state === "offloaded",
  };
}

/**
 * The arguments that give a flow no time to live, so that its next packet begins a new one: the kernel finds it by its hash.
 * For `-D`, conntrack lists the whole table each time: 1,000 flows of 3,000 took 7.8 s, and 17 ms this way (1.4.8). A flow
 * that ended meanwhile is made anew, for no time either.
 */
function expiry({ client, destination, zone }: UdpFlow): string[] {
  const from = ["-s", client.address, "--sport", String(client.port)];
  const to = ["-d", destination.address, "--dport", String(destination.port)];
  const inZone = zone === undefined ? [] : ["-w", String(zone)];
  return ["-A", "-p", "udp", ...from, ...to, ...inZone, "-t", "0"];
}
