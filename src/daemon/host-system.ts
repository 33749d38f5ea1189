import { conntrackTable } from "../kernel/conntrack.ts";
import { flowListener } from "../kernel/flow-listener.ts";
import { conntrackSize, hostFiles, netNamespace } from "../kernel/host.ts";
import { containerMemory, programMemory } from "../kernel/memory-usage.ts";
import { netlinkListener } from "../kernel/netlink-listener.ts";
import type { Nft } from "../kernel/nft.ts";
import { costlyTables } from "../kernel/others-sets.ts";
import { reservedPortFiles } from "../kernel/reserved-ports.ts";
import { endOrphans } from "../kernel/running-programs.ts";
import { systemClock } from "../kernel/system-clock.ts";
import { readHostView } from "../sync/node-context.ts";
import { compactHeap } from "./heap-keeper.ts";
import { setUpHost } from "./host-setup.ts";
import { namespaceLock } from "./namespace-lock.ts";

/** Syncs have at least three quarters of the time of this process, however many connections are observed. */
const FLOW_REST = 3;

/** The machine and the process of a daemon, without nft. Tests have their own. */
export type HostSystem = Readonly<typeof hostSystem>;

/** The real system. */
export const hostSystem = {
  clock: systemClock,
  files: hostFiles,
  /** @throws AppError HOST if the host cannot be read */
  readHost: () => readHostView(hostFiles),
  flows: conntrackTable(systemClock),
  listenToFlows: flowListener(systemClock, hostFiles, { leastRest: FLOW_REST }),
  conntrack: {
    entries: () => conntrackSize(hostFiles, "count"),
    capacity: () => conntrackSize(hostFiles, "max"),
  },
  /** The memory of the container and of the programs that the daemon runs. */
  memory: {
    own: process.memoryUsage.rss,
    container: () => containerMemory(hostFiles),
    programs: () => programMemory(hostFiles),
  },
  reservedPorts: reservedPortFiles,
  /**
   * Returns the network namespace of this process by its name in /proc, `net:[4026531840]`; "" if unknown.
   */
  netNamespace,
  /** The lock of the network namespace: only one daemon can have it. */
  lock: namespaceLock(),
  setUp: setUpHost,
  /** Ends the programs of killed daemons. */
  endOrphans,
  /** Listens to commits to nftables. */
  listenToKernel: netlinkListener(systemClock),
  costlyTables: (nft: Nft) => costlyTables(nft, systemClock),
  /** Returns unused memory to the system; blocks for about 0.1 s. */
  compactHeap,
};
