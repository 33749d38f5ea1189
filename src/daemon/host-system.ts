import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/logger.ts";
import type { ProxyOptions } from "../config/options.ts";
import { conntrackTable, type FlowTable } from "../kernel/conntrack.ts";
import { flowListener, type StartFlowListener } from "../kernel/flow-listener.ts";
import { conntrackSize, type HostFiles, hostFiles, netNamespace } from "../kernel/host.ts";
import { containerMemory, type MemoryUsage, programMemory } from "../kernel/memory-usage.ts";
import { netlinkListener, type StartNetlinkListener } from "../kernel/netlink-listener.ts";
import type { Nft } from "../kernel/nft.ts";
import { type CostlyTable, costlyTables } from "../kernel/others-sets.ts";
import { type ReservedPortFiles, reservedPortFiles } from "../kernel/reserved-ports.ts";
import { endOrphans } from "../kernel/running-programs.ts";
import { systemClock } from "../kernel/system-clock.ts";
import { type HostView, readHostView } from "../sync/node-context.ts";
import { compactHeap } from "./heap-keeper.ts";
import { setUpHost } from "./host-setup.ts";
import type { ConntrackUsage } from "./metrics/metric.ts";
import { type NamespaceLock, namespaceLock } from "./namespace-lock.ts";

/** The machine and the process of a daemon, without nft. Tests have their own. */
export interface HostSystem {
  readonly clock: Clock;
  readonly files: HostFiles;
  /** @throws AppError HOST if the host cannot be read */
  readonly readHost: () => Promise<HostView>;
  readonly flows: FlowTable;
  readonly listenToFlows: StartFlowListener;
  readonly conntrack: ConntrackUsage;
  /** The memory of the container and of the programs that the daemon runs. */
  readonly memory: MemoryUsage;
  readonly reservedPorts: ReservedPortFiles;
  /**
   * Returns the network namespace of this process by its name in /proc, `net:[4026531840]`; "" if unknown.
   */
  readonly netNamespace: () => string;
  /** The lock of the network namespace: only one daemon can have it. */
  readonly lock: NamespaceLock;
  /** See {@link setUpHost}. */
  readonly setUp: (options: ProxyOptions, logger: Logger) => Promise<void>;
  /** Ends the programs of killed daemons. */
  readonly endOrphans: () => void;
  /** Listens to commits to nftables. */
  readonly listenToKernel: StartNetlinkListener;
  /** See {@link costlyTables}. */
  readonly costlyTables: (nft: Nft) => Promise<readonly CostlyTable[]>;
  /** Returns unused memory to the system; blocks for about 0.1 s. */
  readonly compactHeap: () => void;
}

/** The real system. */
export const hostSystem: HostSystem = {
  clock: systemClock,
  files: hostFiles,
  readHost: () => readHostView(hostFiles),
  flows: conntrackTable(systemClock),
  listenToFlows: flowListener(systemClock, hostFiles),
  conntrack: {
    entries: () => conntrackSize(hostFiles, "count"),
    capacity: () => conntrackSize(hostFiles, "max"),
  },
  memory: {
    own: process.memoryUsage.rss,
    container: () => containerMemory(hostFiles),
    programs: () => programMemory(hostFiles),
  },
  reservedPorts: reservedPortFiles,
  netNamespace,
  lock: namespaceLock(),
  setUp: setUpHost,
  endOrphans,
  listenToKernel: netlinkListener(systemClock),
  costlyTables: (nft) => costlyTables(nft, systemClock),
  compactHeap,
};
