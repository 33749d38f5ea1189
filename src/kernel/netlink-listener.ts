import { endianness } from "node:os";
import type { Clock } from "../base/clock.ts";
import { AppError } from "../base/errors.ts";
import { MessageReader, type NetlinkMessage } from "../netlink/message.ts";
import { emptyRequest, GENERATION_SEQUENCE, generationRequest } from "../netlink/requests.ts";
import { NetlinkEvents } from "./netlink-events.ts";

/** Callbacks of a {@link NetlinkListener}. */
export interface NetlinkHandlers {
  /** Called for each message about a commit, in order: its changes, then `generation` at its end. */
  readonly onMessage: (message: NetlinkMessage) => void;
  /** Whether messages of commits with this port id need their elements: see {@link MessageReader}. */
  readonly wantsElements: (portId: number) => boolean;
  /**
   * Called when network interfaces or their addresses changed, often several times for one change. If absent,
   * they are not followed.
   */
  readonly onHostChange?: (() => void) | undefined;
  /** Called once with the reason if listening ends; not after `stop`. */
  readonly onEnd: (error: unknown) => void;
}

/** Listens to commits to nftables and changes of the host in this network namespace. */
export interface NetlinkListener {
  /** Resolves to true once every later change will be reported, and to false if listening ended before. */
  readonly ready: Promise<boolean>;
  /** Resolves when all earlier commits were reported, or listening has ended. */
  ping(): Promise<void>;
  stop(): void;
}

/** Starts a {@link NetlinkListener}. */
export type StartNetlinkListener = (handlers: NetlinkHandlers) => NetlinkListener;

/** Creates listeners that use socat. @param socat path or name of the program */
export function netlinkListener(clock: Clock, socat = "socat"): StartNetlinkListener {
  return ({ onMessage, wantsElements, onHostChange, onEnd }) => {
    const reader = new MessageReader(endianness(), { elements: wantsElements });
    let waiting: (() => void)[] = [];
    const release = () => {
      const released = waiting;
      waiting = [];
      for (const resolve of released) resolve();
    };
    let sockets: readonly NetlinkEvents[] = [];
    const stop = () => {
      for (const socket of sockets) socket.stop();
      release();
    };
    const end = (error: unknown) => {
      stop();
      onEnd(error);
    };
    const take = (message: NetlinkMessage) => {
      if (message.kind === "malformed")
        throw new AppError("HOST", `cannot read the kernel's notifications: ${message.reason}`);
      // The answer to our own ping. Its port id may not be the process id of socat: see OwnCommits.
      if (message.kind === "generation" && message.sequence === GENERATION_SEQUENCE) release();
      else onMessage(message);
    };
    const tables = new NetlinkEvents({
      socat,
      clock,
      ping: generationRequest(endianness()),
      onBytes: (chunk) => {
        for (const message of reader.read(chunk)) take(message);
      },
      onEnd: end,
    });
    const ofHost = new MessageReader(endianness());
    const host = onHostChange && {
      notifications: "host" as const,
      ping: emptyRequest(endianness()),
      onBytes: (chunk: Uint8Array) => {
        if (ofHost.read(chunk).some(({ kind }) => kind === "host")) onHostChange();
      },
    };
    sockets = [tables, ...(host ? [new NetlinkEvents({ socat, clock, ...host, onEnd: end })] : [])];
    return {
      ready: Promise.all(sockets.map(({ ready }) => ready)).then(
        () => true,
        () => false,
      ),
      ping: () =>
        new Promise((resolve) => {
          waiting.push(resolve);
          tables.ask();
        }),
      stop,
    };
  };
}
