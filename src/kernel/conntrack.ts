import { AppError } from "../base/errors.ts";
import { type ByFamily, byFamily, FAMILIES, type Family } from "../base/family.ts";
import { familyOf } from "../model/ip.ts";
import { type StreamLines, streamLines } from "./stream-lines.ts";

/** An address and a port of a flow. */
export interface FlowEnd {
  readonly address: string;
  readonly port: number;
}

/** A UDP flow in the kernel's conntrack table. */
export interface UdpFlow {
  /** The original destination. */
  readonly destination: FlowEnd;
  /** The source of replies: the destination itself unless it was translated. */
  readonly replySource: FlowEnd;
}

/** All UDP flows to a destination, or only those of them with a certain reply source. */
export interface FlowGroup {
  readonly destination: FlowEnd;
  readonly replySource: FlowEnd | undefined;
}

/** The kernel's conntrack table. */
export interface FlowTable {
  /**
   * Yields every UDP flow of both families.
   * @throws AppError HOST when the table cannot be listed
   */
  udpFlows(): AsyncIterable<UdpFlow>;
  /**
   * Deletes the flows of these groups. Resolves with the number of deleted flows.
   * @throws AppError HOST when they cannot be deleted
   */
  deleteFlows(groups: readonly FlowGroup[]): Promise<ByFamily<number>>;
}

/**
 * The arguments of conntrack for one family. Without them, conntrack lists IPv4 alone before 1.4.7.
 * Source: {@link https://lore.kernel.org/netfilter-devel/20201027133255.24498-1-pablo@netfilter.org/ the change of the default}
 */
export function familyArguments(family: Family): readonly string[] {
  return ["-f", family === "ip" ? "ipv4" : "ipv6"];
}

/** Matches both directions of a flow in the output of `conntrack -L`, with or without packet counts. */
const FLOW = /src=\S+ dst=(\S+) sport=\d+ dport=(\d+) .*src=(\S+) dst=\S+ sport=(\d+) /;

/**
 * {@link FlowTable} through conntrack-tools, with one process for each group: `--load-file -`, which would handle all of
 * them, opens /dev/stdin and cannot read from the socket that Node.js gives to a child process (1.4.8).
 */
export class Conntrack implements FlowTable {
  readonly #path: string;
  readonly #stream: StreamLines;

  /** @param path path or name of the program */
  constructor(path: string, stream: StreamLines = streamLines) {
    this.#path = path;
    this.#stream = stream;
  }

  async *udpFlows(): AsyncIterable<UdpFlow> {
    for (const family of FAMILIES) yield* this.#flows(["-L", ...familyArguments(family), "-p", "udp"]);
  }

  async deleteFlows(groups: readonly FlowGroup[]): Promise<ByFamily<number>> {
    const deleted = byFamily(() => 0);
    for (const group of groups) {
      for await (const { destination } of this.#flows(deleteArguments(group))) {
        deleted[familyOf(destination.address)] += 1;
      }
    }
    return deleted;
  }

  async *#flows(args: readonly string[]): AsyncIterable<UdpFlow> {
    try {
      for await (const line of this.#stream(this.#path, args)) {
        const flow = parseFlow(line);
        if (flow !== undefined) yield flow;
      }
    } catch (error) {
      if (!deletedNothing(error)) throw error;
    }
  }
}

/** Parses a line of `conntrack -L` or `-D`; returns undefined for any other line. */
export function parseFlow(line: string): UdpFlow | undefined {
  const [, destination, port, replySource, replyPort] = FLOW.exec(line) ?? [];
  if (destination === undefined || replySource === undefined) return undefined;
  return {
    destination: { address: destination, port: Number(port) },
    replySource: { address: replySource, port: Number(replyPort) },
  };
}

function deleteArguments({ destination, replySource }: FlowGroup): string[] {
  const to = ["--orig-dst", destination.address, "--orig-port-dst", String(destination.port)];
  const from =
    replySource === undefined ? [] : ["--reply-src", replySource.address, "--reply-port-src", String(replySource.port)];
  return ["-D", ...familyArguments(familyOf(destination.address)), "-p", "udp", ...to, ...from];
}

/** Returns true if no flow was left to delete, which conntrack reports with exit code 1. */
function deletedNothing(error: unknown): boolean {
  return error instanceof AppError && (error.evidence.stderr ?? "").includes(": 0 flow entries have been deleted");
}
