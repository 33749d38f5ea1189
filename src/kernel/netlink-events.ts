import { endianness } from "node:os";
import type { Clock, Timer } from "../base/clock.ts";
import { AppError } from "../base/errors.ts";
import { MessageReader, type NetlinkMessage, type WantedContents } from "../netlink/message.ts";
import { type Notifications, openSocket, socketFailure } from "./netlink-socket.ts";
import type { ProgramEnd } from "./process.ts";

/** Interval between pings, milliseconds. */
const PING_INTERVAL = 10_000;

/** Maximum time from a ping to any message, milliseconds. socat starts in 10 ms and answers within 1 ms. */
const PONG_TIMEOUT = 5_000;

/**
 * Size of the buffer in which the kernel keeps unread notifications, bytes. The kernel allows twice as much
 * and counts their memory use. This holds one commit of 300,000 elements; 8 MB cannot hold 100,000 (Linux
 * 6.18, with socat stopped). Only unread notifications take memory.
 */
const BUFFER = 32 * 1024 * 1024;

/** A reading this large means that more messages are waiting. Bytes; 64 KB is the most. */
const MANY = 32_768;

/** Maximum rest between two readings, milliseconds: the answer to a ping is only seen after it. */
const LONGEST_REST = 1_000;

const noRest = async () => 0;

/** Arguments of {@link netlinkEvents}. */
export interface NetlinkEventsParts {
  /** Path or name of the program. */
  readonly socat?: string;
  readonly clock: Clock;
  /** What to listen to: nftables if absent. */
  readonly notifications?: Notifications;
  /** A request that the kernel answers and that changes nothing. */
  readonly ping: Uint8Array;
  /** Size of the kernel's buffer, bytes. */
  readonly bufferBytes?: number;
  /**
   * Pause after each reading of few messages, in which further ones gather, milliseconds; none if absent. For
   * thousands of notifications a second: a reading of one costs as much as one of hundreds.
   */
  readonly pauseMs?: number;
  /** Pause after a reading of many messages, as a multiple of its duration; 0 if absent. Never rejects. */
  readonly restRatio?: () => Promise<number>;
  /** Which messages need their contents; all if absent. */
  readonly wanted?: WantedContents;
  /** Called with each notification, and with the answers to `ping`. */
  readonly onMessage: (message: NetlinkMessage) => void;
  /**
   * Called once if listening ends without `stop`.
   * @param reason {@link AppError}, or the error that `onMessage` threw
   */
  readonly onEnd: (reason: unknown) => void;
}

/** A listener of {@link netlinkEvents}. */
export type NetlinkEvents = ReturnType<typeof netlinkEvents>;

/**
 * Listens to changes of nftables, the host or flows in this network namespace, from its creation. Ends if
 * socat ends, is killed or hangs, and if the kernel had to drop a notification, except one of flows. The
 * caller then has to create a new listener.
 */
export function netlinkEvents(parts: NetlinkEventsParts) {
  const { clock, ping, wanted, onMessage, onEnd, pauseMs = 0, restRatio = noRest } = parts;
  const { socat = "socat", notifications = "nftables", bufferBytes = BUFFER } = parts;
  const reader = new MessageReader(endianness(), wanted);
  let settle = (_isReady: boolean): void => {};
  const ready = new Promise<boolean>((resolve) => {
    settle = resolve;
  });
  const open = (isForced: boolean) =>
    openSocket(socat, { notifications, buffer: { bytes: bufferBytes, isForced } });
  let program = open(true);
  let timer: Timer | undefined;
  /** Whether any message arrived since the last ping. */
  let isAlive = false;
  let isReady = false;
  let isEnded = false;

  /** Stops listening. Nothing is called afterwards. */
  const stop = () => {
    isEnded = true;
    timer?.cancel();
    program.kill();
    settle(false);
  };

  const end = (reason: unknown) => {
    if (isEnded) return;
    stop();
    onEnd(reason);
  };

  const expectPong = () => {
    if (isAlive) timer = clock.after(PING_INTERVAL - PONG_TIMEOUT, sendPing);
    else end(new AppError("HOST", `${socat}, which reads the kernel's tables, did not answer within 5 s`));
  };

  const sendPing = () => {
    timer?.cancel();
    isAlive = false;
    program.write(ping);
    timer = clock.after(PONG_TIMEOUT, () => {
      // If this process was busy, its timers fire before messages that have already arrived are read.
      timer = clock.after(0, expectPong);
    });
  };

  /** Passes on messages until the program ends. */
  const follow = async (): Promise<ProgramEnd> => {
    const followed = program;
    sendPing();
    for await (const chunk of followed.output) {
      if (isEnded) break;
      isAlive = true;
      isReady = true;
      const startedAt = clock.monotonic();
      for (const message of reader.read(chunk)) {
        if (message.kind === "malformed")
          throw new AppError("HOST", `cannot read the kernel's notifications: ${message.reason}`);
        onMessage(message);
      }
      settle(true);
      const took = clock.monotonic() - startedAt;
      const isMany = chunk.length >= MANY;
      const pause = isMany ? Math.min(LONGEST_REST, took * (await restRatio())) : pauseMs;
      if (pause > 0) await new Promise<void>((resume) => clock.after(pause, resume));
    }
    return await followed.ended;
  };

  const run = async () => {
    try {
      let programEnd = await follow();
      // Root in a user namespace may listen, but not exceed the limit of the host.
      if (!isReady && !isEnded && programEnd.stderr.includes("setsockopt(")) {
        program = open(false);
        programEnd = await follow();
      }
      end(socketFailure(program, programEnd));
    } catch (error) {
      end(error);
    }
  };

  void run();
  return {
    /**
     * Resolves to true when no later change can be missed: the kernel has answered, which it only does once
     * the socket is bound. Resolves to false if listening ended before.
     */
    ready,
    /** Process id of socat; undefined if it could not be started. */
    get pid(): number | undefined {
      return program.pid;
    },
    /** Sends a ping. The answer arrives after all earlier commits. */
    ask: () => program.write(ping),
    stop,
  };
}
