import type { ProxyOptions } from "../config/options.ts";
import type { UnservedServices } from "../kube/decode/ignored-service.ts";
import type { CurrentOptions } from "../sync/current-options.ts";
import { assembleCore } from "./core.ts";
import type { CoreParts } from "./core-state.ts";
import { startingEvent } from "./events/events.ts";
import { daemonServers } from "./http/daemon-servers.ts";
import { stateSnapshot } from "./state-snapshot.ts";

/** What the command line decides about a daemon. */
export interface AssemblyParts extends CoreParts {
  /** The flags that were given, by name, for /flagz. */
  readonly flags: ReadonlyMap<string, string>;
  /** The newest lines of the log, for the daemon socket. */
  readonly recentLog: () => readonly string[];
  /** Asks for the Services that the source excludes. Never rejects. */
  readonly unservedServices: () => Promise<UnservedServices>;
}

/** A daemon with its servers. */
export interface AssembledDaemon {
  /** The options in force. */
  readonly options: Pick<CurrentOptions, "value">;
  /** Takes over options that are safe to change while running. */
  setOptions(options: ProxyOptions): void;
  /** The desired and the committed state, for support. */
  snapshot(): Record<string, unknown>;
  /**
   * Opens the servers, follows the source and programs the kernel.
   * @throws AppError HOST with `bindAddressHardFail`, when everything is closed again
   */
  start(): Promise<void>;
  /** Stops everything and leaves the rules. Never rejects. */
  stop(): Promise<void>;
}

/** Puts a daemon together. @throws AppError HOST when the host cannot be read */
export async function assembleDaemon(parts: AssemblyParts): Promise<AssembledDaemon> {
  const core = await assembleCore(parts);
  const { options, daemon, events, serviceHealth, loopback, heap, refusals, clock } = core;
  const { dryRun, flags, version, logger, recentLog, unservedServices } = parts;
  const netNamespace = parts.system.netNamespace();
  const servers = daemonServers({ ...core, dryRun, flags, version, logger, netNamespace, recentLog, unservedServices });
  const stop = async () => {
    refusals?.stop();
    await daemon.stop();
    heap.stop();
    const closing = [...servers, serviceHealth, loopback].map((server) => server.close());
    await Promise.all([...closing, events.recorder.stop()]);
  };
  const start = async () => {
    for (const server of servers) await server.start();
    events.recorder.record(startingEvent(events.node()));
    daemon.start();
    refusals?.start();
  };
  return {
    options,
    setOptions: (next) => daemon.setOptions(next),
    snapshot: () => stateSnapshot({ ...core, now: clock.now }),
    start: async () => {
      try {
        await start();
      } catch (error) {
        // Servers that do listen would keep the process alive, and answer for a daemon that does nothing.
        await stop();
        throw error;
      }
    },
    stop,
  };
}
