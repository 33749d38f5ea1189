import { endianness } from "node:os";
import type { Clock } from "../base/clock.ts";
import { AppError } from "../base/errors.ts";
import { MessageReader, type NetlinkMessage } from "../netlink/message.ts";
import { GENERATION_SEQUENCE, generationRequest } from "../netlink/requests.ts";
import { NetlinkEvents } from "./netlink-events.ts";

/** Callbacks of a {@link NetlinkListener}. */
export interface NetlinkHandlers {
  /** Called for each message about a commit, in order: its changes, then `generation` at its end. */
  readonly onMessage: (message: NetlinkMessage) => void;
  /** Whether messages of commits with this port id need their elements: see {@link MessageReader}. */
  readonly wantsElements: (portId: number) => boolean;
  /** Called once with the reason if listening ends; not after `stop`. */
  readonly onEnd: (error: unknown) => void;
}

/** Listens to commits to nftables in this network namespace. */
export interface NetlinkListener {
  /** Resolves to true once every later commit will be reported, and to false if listening ended before. */
  readonly ready: Promise<boolean>;
  /** Resolves when all earlier commits were reported, or listening has ended. */
  ping(): Promise<void>;
  stop(): void;
}

/** Starts a {@link NetlinkListener}. */
export type StartNetlinkListener = (handlers: NetlinkHandlers) => NetlinkListener;

/** Creates listeners that use socat. @param socat path or name of the program */
export function netlinkListener(clock: Clock, socat = "socat"): StartNetlinkListener {
  return ({ onMessage, wantsElements, onEnd }) => {
    const reader = new MessageReader(endianness(), wantsElements);
    let waiting: (() => void)[] = [];
    const release = () => {
      const released = waiting;
      waiting = [];
      for (const resolve of released) resolve();
    };
    const take = (message: NetlinkMessage) => {
      if (message.kind === "malformed")
        throw new AppError("HOST", `cannot read the kernel's notifications: ${message.reason}`);
      // The answer to our own ping. Its port id may not be the process id of socat: see OwnCommits.
      if (message.kind === "generation" && message.sequence === GENERATION_SEQUENCE) release();
      else onMessage(message);
    };
    const events = new NetlinkEvents({
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
