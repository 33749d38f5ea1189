import type { Clock } from "../base/clock.ts";
import type { Flow, FlowState } from "../netlink/flow.ts";
import type { FlowChange } from "../netlink/message.ts";
import type { HostFiles } from "./host.ts";
import { netlinkEvents } from "./netlink-events.ts";
import { REQUESTS } from "./netlink-requests.ts";

/**
 * Size of the kernel's buffer of unread notifications, bytes. The kernel allows twice as much, and counts
 * about 770 bytes for each of the eight notifications of a TCP connection.
 */
const BUFFER = 8 * 1024 * 1024;

/** Pause after each reading of few messages, milliseconds. */
const PAUSE = 5;

/** Interval between readings of /proc/uptime, whose times have a resolution of 10 ms. Milliseconds. */
const IDLE_INTERVAL = 200;

/** The rest after a reading of many messages, as a multiple of its duration, while no processor is idle. */
const MOST_REST = 100;

/** NETLINK_NETFILTER in /proc/net/netlink. */
const NETFILTER = "12";

/** Callbacks of a {@link FlowListener}. */
export interface FlowHandlers {
  /** Whether to report a changed or deleted flow in this state. New flows are always reported. */
  readonly wants: (change: FlowChange, state: FlowState) => boolean;
  readonly onFlow: (change: FlowChange, flow: Flow) => void;
  /** Called once with the reason if listening ends; not after `stop`. */
  readonly onEnd: (error: unknown) => void;
}

/** Listens to new, changed and deleted flows of this network namespace. */
export interface FlowListener {
  /** Resolves to true once every later change will be reported, to false if listening ended before. */
  readonly ready: Promise<boolean>;
  /** The number of changes that the kernel dropped, because too many waited to be read. 0 if unknown. */
  dropped(): Promise<number>;
  stop(): void;
}

/** Starts a {@link FlowListener}. */
export type StartFlowListener = (handlers: FlowHandlers) => FlowListener;

/** Options of a {@link flowListener}. */
export interface FlowListenerOptions {
  /** Path or name of the program. */
  readonly socat?: string;
  /**
   * Minimum rest after a reading of many messages, as a multiple of its duration, also while processors are
   * idle.
   */
  readonly leastRest?: number;
}

/**
 * Creates listeners that use socat. Packets never wait for a listener: what does not fit into its buffer is
 * dropped.
 */
export function flowListener(
  clock: Clock,
  files: HostFiles,
  { socat = "socat", leastRest = 0 }: FlowListenerOptions = {},
): StartFlowListener {
  return ({ wants, onFlow, onEnd }) => {
    let portId: number | undefined;
    const events = netlinkEvents({
      socat,
      clock,
      notifications: "flows",
      bufferBytes: BUFFER,
      pauseMs: PAUSE,
      restRatio: restWhileBusy(clock, files, leastRest),
      ping: REQUESTS.generation(),
      wanted: { flows: wants },
      onMessage: (message) => {
        // The answer to our own ping.
        if (message.kind === "generation") portId = message.portId;
        else if (message.kind === "flow" && message.flow !== undefined) onFlow(message.change, message.flow);
      },
      onEnd,
    });
    return {
      ready: events.ready,
      dropped: () => droppedMessages(files, portId),
      stop: events.stop,
    };
  };
}

/**
 * Makes listening take only what other programs leave: the fewer processors are idle, the longer it rests. A
 * low priority would do harm: RCU in the kernel waits for processes that were interrupted in certain places,
 * and transactions of nftables wait for RCU. A process that hardly gets a processor delays them by seconds.
 */
function restWhileBusy(clock: Clock, files: HostFiles, least: number): () => Promise<number> {
  let ratio = least;
  let readAt = Number.NEGATIVE_INFINITY;
  let before: readonly number[] = [];
  return async () => {
    if (clock.monotonic() - readAt < IDLE_INTERVAL) return ratio;
    readAt = clock.monotonic();
    // Seconds since the start of the machine, and the idle seconds of all processors.
    const times = (await files.read("/proc/uptime").catch(() => "")).split(" ").map(Number);
    const [passed = 0, idle = 0] = times.map((time, i) => time - (before[i] ?? Number.NaN));
    before = times;
    const wanted = passed / Math.max(0, idle);
    ratio = Number.isNaN(wanted) ? least : Math.max(least, Math.min(MOST_REST, wanted));
    return ratio;
  };
}

/** Reads the column `Drops` of a socket. */
async function droppedMessages(files: HostFiles, portId: number | undefined): Promise<number> {
  const text = await files.read("/proc/net/netlink").catch(() => "");
  const [names = [], ...sockets] = text.split("\n").map((line) => line.trim().split(/\s+/));
  const own = sockets.find(([, protocol, id]) => protocol === NETFILTER && id === String(portId));
  return Number(own?.[names.indexOf("Drops")] ?? 0);
}
