import { endianness } from "node:os";
import type { Clock } from "../base/clock.ts";
import { AppError } from "../base/errors.ts";
import { MessageReader, type NetlinkMessage } from "../netlink/message.ts";
import { generationRequest } from "../netlink/requests.ts";
import { startNetlinkEvents } from "./netlink-events.ts";

/** What a {@link NetlinkListener} reports. */
export interface NetlinkHandlers {
  /** Takes each message about a commit, in order: what it changed, and `generation` at its end. */
  readonly onMessage: (message: NetlinkMessage) => void;
  /** Told once why nothing more will come; not after `stop`. */
  readonly onEnd: (error: unknown) => void;
}

/** Listens to what is committed to nftables in this network namespace. */
export interface NetlinkListener {
  /** Of the helper process; undefined when it could not be started. */
  readonly pid: number | undefined;
  /** Whether every commit is told from now on; false when it ended before. */
  readonly ready: Promise<boolean>;
  /** Resolves when all commits of before were told, or nothing more will come. */
  ping(): Promise<void>;
  stop(): void;
}

/** Starts a {@link NetlinkListener}. */
export type StartNetlinkListener = (handlers: NetlinkHandlers) => NetlinkListener;

/** Listens by socat. @param socat path or name of the program */
export function netlinkListener(clock: Clock, socat = "socat"): StartNetlinkListener {
  return ({ onMessage, onEnd }) => {
    const reader = new MessageReader(endianness());
    let waiting: (() => void)[] = [];
    const release = () => {
      const released = waiting;
      waiting = [];
      for (const resolve of released) resolve();
    };
    const take = (message: NetlinkMessage) => {
      if (message.kind === "malformed")
        throw new AppError("HOST", `the kernel's notifications: ${message.reason}`);
      // The answer to a question of ours.
      if (message.kind === "generation" && message.portId === events.pid) release();
      else onMessage(message);
    };
    const events = startNetlinkEvents({
      socat,
      clock,
      ping: generationRequest(endianness()),
      onBytes: (chunk) => {
        for (const message of reader.read(chunk)) take(message);
      },
      onEnd: (error) => {
        release();
        onEnd(error);
      },
    });
    return {
      get pid() {
        return events.pid;
      },
      ready: events.ready.then(
        () => true,
        () => false,
      ),
      ping: () =>
        new Promise((resolve) => {
          waiting.push(resolve);
          events.ask();
        }),
      stop: () => {
        events.stop();
        release();
      },
    };
  };
}
