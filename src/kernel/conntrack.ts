import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FAMILIES } from "../base/family.ts";
import { groupBy } from "../base/group-by.ts";
import { familyOf } from "../model/ip.ts";
import { ProgramError, type StreamLines, streamLines } from "./stream-lines.ts";
import {
  CONNTRACK,
  familyArguments,
  parseConnection,
  type TrackedConnection,
} from "./tracked-connections.ts";

/** A UDP flow or an unanswered TCP connection in the kernel's conntrack table. */
export interface Flow extends Pick<TrackedConnection, "client" | "destination" | "replySource"> {
  readonly protocol: "tcp" | "udp";
  /**
   * The kernel's number of the entry. A flow that was deleted and created again nearly always has another
   * number.
   */
  readonly id: number;
  /** The conntrack zone; undefined for the default one. */
  readonly zone: number | undefined;
}

/** The kernel's conntrack table. */
export interface FlowTable {
  /**
   * Yields every UDP flow of both families.
   * @throws AppError HOST if the table cannot be listed
   */
  udpFlows(): AsyncIterable<Flow>;
  /**
   * Yields every TCP connection of both families whose SYN is unanswered.
   * @throws AppError HOST if the table cannot be listed
   */
  unansweredConnections(): AsyncIterable<Flow>;
  /**
   * Expires any number of flows in one call. conntrack-tools 1.4.7 does nothing and reports success: only a
   * new listing shows whether they are gone.
   * @throws AppError HOST if conntrack fails, as 1.4.6 does
   */
  expireFlows(flows: readonly Flow[]): Promise<void>;
  /**
   * Deletes every flow with the protocol, the destination and the reply source of one of these; of TCP, only
   * unanswered connections. Works with every version; costs about one listing for each pair of destination
   * and reply source.
   * @throws AppError HOST if conntrack fails
   */
  deleteFlowsLike(flows: readonly Flow[]): Promise<void>;
}

const UDP: readonly string[] = ["-p", "udp"];
const UNANSWERED_TCP: readonly string[] = ["-p", "tcp", "--state", "SYN_SENT"];

/**
 * Returns the {@link FlowTable} through conntrack-tools 1.4.6 or newer. Listing also makes the kernel delete
 * expired flows. Offloaded ones need this, as none of their packets causes it.
 * @param path path or name of the program
 */
export function conntrackTable(path = CONNTRACK, stream: StreamLines = streamLines): FlowTable {
  async function* list(kind: readonly string[]): AsyncIterable<Flow> {
    for (const family of FAMILIES) {
      const args = ["-L", ...familyArguments(family), ...kind, "-o", "id"];
      for await (const line of stream(path, args)) {
        const flow = parseFlow(line);
        if (flow !== undefined) yield flow;
      }
    }
  }
  return {
    udpFlows: () => list(UDP),
    unansweredConnections: () => list(UNANSWERED_TCP),
    /**
     * Uses one process that reads a file. With `--load-file -` conntrack opens /dev/stdin, which fails for
     * the socket that Node.js gives to a child process (1.4.8).
     */
    async expireFlows(flows) {
      const directory = await mkdtemp(join(tmpdir(), "nft-proxy-flows-"));
      try {
        const file = join(directory, "flows");
        await writeFile(file, flows.map((flow) => `${expiry(flow).join(" ")}\n`).join(""));
        for await (const _ of stream(path, ["--load-file", file]));
      } finally {
        await rm(directory, { recursive: true, force: true });
      }
    },
    async deleteFlowsLike(flows) {
      for (const args of groupBy(flows.map(deletion), (args) => args.join(" ")).values()) {
        try {
          for await (const _ of stream(path, args[0] ?? []));
        } catch (error) {
          if (!isNothingDeleted(error)) throw error;
        }
      }
    },
  };
}

/** Parses a line of `conntrack -L -o id`. Returns undefined if the line is not a TCP or UDP flow. */
export function parseFlow(line: string): Flow | undefined {
  const connection = parseConnection(line);
  if (connection === undefined || connection.protocol === "sctp") return undefined;
  const { protocol, client, destination, replySource } = connection;
  const zone = / zone=(\d+)/.exec(line)?.[1];
  return {
    protocol,
    client,
    destination,
    replySource,
    id: Number(/ id=(\d+)/.exec(line)?.[1]),
    zone: zone === undefined ? undefined : Number(zone),
  };
}

/**
 * Returns the arguments that set the timeout of a flow to 0, so that its next packet starts a new flow. The
 * kernel finds the entry by its hash. `-D` lists the whole table each time: 1,000 flows of 3,000 took 7.8 s,
 * and 17 ms this way (1.4.8). A flow that ended meanwhile is created again, also with timeout 0. 1.4.7
 * ignores `-A` for an existing flow.
 */
function expiry({ protocol, client, destination, zone }: Flow): string[] {
  const from = ["-s", client.address, "--sport", String(client.port)];
  const to = ["-d", destination.address, "--dport", String(destination.port)];
  const inZone = zone === undefined ? [] : ["-w", String(zone)];
  return ["-A", ...kindOf(protocol), ...from, ...to, ...inZone, "-t", "0"];
}

/** Returns the arguments that delete all flows with a flow's destination and reply source, in any zone. */
function deletion({ protocol, destination, replySource }: Flow): string[] {
  const to = ["-d", destination.address, "--dport", String(destination.port)];
  const by = ["-r", replySource.address, "--reply-port-src", String(replySource.port)];
  return ["-D", ...familyArguments(familyOf(destination.address)), ...kindOf(protocol), ...to, ...by];
}

function kindOf(protocol: Flow["protocol"]): readonly string[] {
  return protocol === "udp" ? UDP : UNANSWERED_TCP;
}

/** Whether the flows had ended before conntrack could delete them, which it reports as a failure. */
function isNothingDeleted(error: unknown): boolean {
  return error instanceof ProgramError && / 0 flow entries have been deleted/.test(error.end.stderr);
}
