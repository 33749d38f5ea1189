import type { TableMessage } from "../../src/drift/kernel-events.ts";
import type { NetlinkHandlers, StartNetlinkListener } from "../../src/kernel/netlink-listener.ts";

/** A change of a table in a test. The default table is `ip nft-proxy`. */
export type Told = TableMessage extends infer Each
  ? Each extends TableMessage
    ? Partial<Each>
    : never
  : never;

/** A listener that was started. */
interface Started {
  readonly handlers: NetlinkHandlers;
  readonly ready: (isReady: boolean) => void;
  isStopped: boolean;
}

/**
 * The default author of commits: another program. Tests may pass another port id.
 */
export const STRANGER = { program: "other", pid: 99, portId: 99 };

/** A fake of the kernel's notifications, controlled by a test. */
export class FakeListener {
  /** Every listener so far. */
  readonly started: Started[] = [];
  /** Whether new listeners are ready at once. If not, a test decides when. */
  isReadyAtOnce = true;
  /** Called for each ping. The answer waits for its result. */
  beforePong: () => Promise<void> = async () => {};

  /** Starts a listener. */
  readonly listen: StartNetlinkListener = (handlers) => {
    let ready: (isReady: boolean) => void = () => {};
    const isReady = new Promise<boolean>((resolve) => {
      ready = resolve;
    });
    const started: Started = { handlers, ready, isStopped: false };
    this.started.push(started);
    if (this.isReadyAtOnce) ready(true);
    return {
      ready: isReady,
      ping: () => this.beforePong(),
      stop: () => {
        started.isStopped = true;
        ready(false);
      },
    };
  };

  /** The newest listener. */
  get last(): Started {
    const last = this.started.at(-1);
    if (last === undefined) throw new Error("nobody listens");
    return last;
  }

  /** Reports a commit of these changes, by another program or with the given port id. */
  commit(changes: readonly Told[], { program, pid, portId } = STRANGER): void {
    const { onMessage, wantsElements } = this.last.handlers;
    const place = { portId, family: "ip", table: "nft-proxy" } as const;
    for (const change of changes) {
      const message = { ...place, ...change } as TableMessage;
      if (message.kind !== "elements" || wantsElements(message.portId)) onMessage(message);
      else onMessage({ ...message, elements: [] });
    }
    onMessage({ kind: "generation", portId: 0, sequence: 7, generation: 7, pid, program });
  }

  /** Ends the newest listener, as if the kernel had lost a notification. */
  end(reason = new Error("lost")): void {
    this.last.ready(false);
    this.last.handlers.onEnd(reason);
  }
}
