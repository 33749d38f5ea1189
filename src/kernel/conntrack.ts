import { AppError } from "../base/errors.ts";
import { type ByFamily, byFamily } from "../base/family.ts";
import { familyOf } from "../model/ip.ts";
import { type StreamLines, streamLines } from "./stream-lines.ts";

/** An address and a port of a flow. */
export interface FlowEnd {
  readonly address: string;
  readonly port: number;
}

/** A UDP flow that the kernel tracks. */
export interface UdpFlow {
  /** Where the client sent it. */
  readonly destination: FlowEnd;
  /** Who answers: the destination itself unless it was translated. */
  readonly replySource: FlowEnd;
}

/** All UDP flows to a destination; only those with that replySource if there is one. */
export interface FlowGroup {
  readonly destination: FlowEnd;
  readonly replySource: FlowEnd | undefined;
}

/** The kernel's table of flows. */
export interface FlowTable {
  /** Every UDP flow of both families, one after the other. Throws AppError HOST. */
  udpFlows(): AsyncIterable<UdpFlow>;
  /** Forgets the flows of these groups. Resolves with how many. Throws AppError HOST. */
  forget(groups: readonly FlowGroup[]): Promise<ByFamily<number>>;
}

/** Both directions of a flow as `conntrack -L` prints them, with or without packet counts after the first. */
const FLOW = /src=\S+ dst=(\S+) sport=\d+ dport=(\d+) .*src=(\S+) dst=\S+ sport=(\d+) /;

/**
 * {@link FlowTable} through conntrack-tools. One process for each group: `--load-file -`, which would take them all,
 * opens /dev/stdin and so cannot read from the socket that Node gives a child (1.4.8).
 */
export class Conntrack implements FlowTable {
  readonly #path: string;
  readonly #stream: StreamLines;

  /** @param path path or name of the program */
  constructor(path: string, stream: StreamLines = streamLines) {
    this.#path = path;
    this.#stream = stream;
  }

  udpFlows(): AsyncIterable<UdpFlow> {
    return this.#flows(["-L", "-p", "udp"]);
  }

  async forget(groups: readonly FlowGroup[]): Promise<ByFamily<number>> {
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

/** A line of `conntrack -L` or of what it deleted; undefined for anything else. */
export function parseFlow(line: string): UdpFlow | undefined {
  const [, destination, port, replySource, replierPort] = FLOW.exec(line) ?? [];
  if (destination === undefined || replySource === undefined) return undefined;
  return {
    destination: { address: destination, port: Number(port) },
    replySource: { address: replySource, port: Number(replierPort) },
  };
}

function deleteArguments({ destination, replySource }: FlowGroup): string[] {
  const family = familyOf(destination.address) === "ip" ? "ipv4" : "ipv6";
  const to = ["--orig-dst", destination.address, "--orig-port-dst", String(destination.port)];
  const from =
    replySource === undefined ? [] : ["--reply-src", replySource.address, "--reply-port-src", String(replySource.port)];
  return ["-D", "-f", family, "-p", "udp", ...to, ...from];
}

/** The flows ended by themselves since they were listed: exit code 1 all the same. */
function deletedNothing(error: unknown): boolean {
  return error instanceof AppError && (error.evidence.stderr ?? "").includes(": 0 flow entries have been deleted");
}
