import type { Clock } from "../base/clock.ts";
import type { NetlinkMessage } from "../netlink/message.ts";
import { GENERATION_SEQUENCE } from "../netlink/requests.ts";
import { netlinkEvents } from "./netlink-events.ts";
import { REQUESTS } from "./netlink-requests.ts";

/** Callbacks of a {@link NetlinkListener}. */
export interface NetlinkHandlers {
  /** Called for each message about a commit, in order: its changes, then `generation` at its end. */
  readonly onMessage: (message: NetlinkMessage) => void;
  /** Whether messages of commits with this port id need their elements: see {@link MessageReader}. */
  readonly wantsElements: (portId: number) => boolean;
  /** Called when network interfaces or their addresses changed, often several times for one change. */
  readonly onHostChange: () => void;
  /** Called once with the reason if listening ends; not after `stop`. */
  readonly onEnd: (error: unknown) => void;
}

/** Listens to commits to nftables and changes of the host in this network namespace. */
export interface NetlinkListener {
  /** Resolves to true once every later change will be reported, to false if listening ended before. */
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
    let waiting: (() => void)[] = [];
    const release = () => {
      const released = waiting;
      waiting = [];
      for (const resolve of released) resolve();
    };
    const stop = () => {
      tables.stop();
      host.stop();
      release();
    };
    const end = (error: unknown) => {
      stop();
      onEnd(error);
    };
    const tables = netlinkEvents({
      socat,
      clock,
      ping: REQUESTS.generation(),
      wanted: { elements: wantsElements },
      onMessage: (message) => {
        // The answer to our own ping. Its port id may not be the process id of socat: see OwnCommits.
        if (message.kind === "generation" && message.sequence === GENERATION_SEQUENCE) release();
        else onMessage(message);
      },
      onEnd: end,
    });
    const host = netlinkEvents({
      socat,
      clock,
      notifications: "host",
      ping: REQUESTS.nothing(),
      onMessage: ({ kind }) => {
        if (kind === "host") onHostChange();
      },
      onEnd: end,
    });
    return {
      ready: Promise.all([tables.ready, host.ready]).then((all) => !all.includes(false)),
      ping: () =>
        new Promise((resolve) => {
          waiting.push(resolve);
          tables.ask();
        }),
      stop,
    };
  };
}
