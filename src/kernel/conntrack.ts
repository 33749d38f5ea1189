import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FAMILIES } from "../base/family.ts";
import { groupBy } from "../base/group-by.ts";
import { familyOf } from "../model/ip.ts";
import { ProgramError, type StreamLines, streamLines } from "./stream-lines.ts";
import { familyArguments, parseConnection, type TrackedConnection } from "./tracked-connections.ts";

/** A UDP flow in the kernel's conntrack table. */
export interface UdpFlow extends Pick<TrackedConnection, "client" | "destination" | "replySource"> {
  /** The kernel's number of the entry: a flow that was deleted and made again nearly always has another one. */
  readonly id: number;
  /** The conntrack zone; undefined for the default one. */
  readonly zone: number | undefined;
}

/** The kernel's conntrack table. */
export interface FlowTable {
  /**
   * Yields every UDP flow of both families.
   * @throws AppError HOST when the table cannot be listed
   */
  udpFlows(): AsyncIterable<UdpFlow>;
  /**
   * Ends flows at once, however many they are. conntrack-tools 1.4.7 does nothing and reports success: only a listing
   * shows whether they are gone.
   * @throws AppError HOST when conntrack fails, as 1.4.6 does
   */
  expireFlows(flows: readonly UdpFlow[]): Promise<void>;
  /**
   * Deletes every flow that has the destination and the reply source of one of these. Works with every version, and costs
   * about a listing for each pair of destination and reply source.
   * @throws AppError HOST when conntrack fails
   */
  deleteFlowsLike(flows: readonly UdpFlow[]): Promise<void>;
}

/** {@link FlowTable} through conntrack-tools 1.4.6 or newer. */
export class Conntrack implements FlowTable {
  readonly #path: string;
  readonly #stream: StreamLines;

  /** @param path path or name of the program */
  constructor(path: string, stream: StreamLines = streamLines) {
    this.#path = path;
    this.#stream = stream;
  }

  /** Also has the kernel delete the flows that have no time to live, which offloaded ones need: no packet of theirs does it. */
  async *udpFlows(): AsyncIterable<UdpFlow> {
    for (const family of FAMILIES) {
      for await (const line of this.#stream(this.#path, [
        "-L",
        ...familyArguments(family),
        "-p",
        "udp",
        "-o",
        "id",
      ])) {
        const flow = parseFlow(line);
        if (flow !== undefined) yield flow;
      }
    }
  }

  /**
   * By one process, which reads a file: conntrack opens /dev/stdin for `--load-file -`, which cannot be opened where it is
   * the socket that Node.js gives to a child process (1.4.8).
   */
  async expireFlows(flows: readonly UdpFlow[]): Promise<void> {
    const directory = await mkdtemp(join(tmpdir(), "nft-proxy-flows-"));
    try {
      const file = join(directory, "flows");
      await writeFile(file, flows.map((flow) => `${expiry(flow).join(" ")}\n`).join(""));
      for await (const _ of this.#stream(this.#path, ["--load-file", file]));
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  }

  async deleteFlowsLike(flows: readonly UdpFlow[]): Promise<void> {
    for (const args of groupBy(flows.map(deletion), (args) => args.join(" ")).values()) {
      try {
        for await (const _ of this.#stream(this.#path, args[0] ?? []));
      } catch (error) {
        if (!isNothingDeleted(error)) throw error;
      }
    }
  }
}

/** Parses a line of `conntrack -L -o id`; returns undefined for any line that is no flow. */
export function parseFlow(line: string): UdpFlow | undefined {
  const connection = parseConnection(line);
  if (connection === undefined) return undefined;
  const { client, destination, replySource } = connection;
  const zone = / zone=(\d+)/.exec(line)?.[1];
  return {
    client,
    destination,
    replySource,
    id: Number(/ id=(\d+)/.exec(line)?.[1]),
    zone: zone === undefined ? undefined : Number(zone),
  };
}

/**
 * The arguments that give a flow no time to live, so that its next packet begins a new one: the kernel finds it by its hash.
 * `-D` lists the whole table each time: for 1,000 flows of 3,000 that took 7.8 s, and this 17 ms (1.4.8). A flow that ended
 * meanwhile is made anew, for no time either. 1.4.7 ignores `-A` for a flow that is there.
 */
function expiry({ client, destination, zone }: UdpFlow): string[] {
  const from = ["-s", client.address, "--sport", String(client.port)];
  const to = ["-d", destination.address, "--dport", String(destination.port)];
  const inZone = zone === undefined ? [] : ["-w", String(zone)];
  return ["-A", "-p", "udp", ...from, ...to, ...inZone, "-t", "0"];
}

/** The arguments that delete all flows with a flow's destination and reply source, in any zone. */
function deletion({ destination, replySource }: UdpFlow): string[] {
  const to = ["-d", destination.address, "--dport", String(destination.port)];
  const by = ["-r", replySource.address, "--reply-port-src", String(replySource.port)];
  return ["-D", ...familyArguments(familyOf(destination.address)), "-p", "udp", ...to, ...by];
}

/** Whether the flows ended before conntrack came to delete them, which it reports as a failure. */
function isNothingDeleted(error: unknown): boolean {
  return error instanceof ProgramError && / 0 flow entries have been deleted/.test(error.end.stderr);
}
