import type { HostSystem } from "../../src/daemon/host-system.ts";
import { FakeFlowListener } from "./fake-flow-listener.ts";
import { FakeFlowTable } from "./fake-flow-table.ts";
import { FakeHostFiles } from "./fake-host-files.ts";
import { FakeReservedPorts } from "./fake-reserved-ports.ts";

/**
 * A host for daemons in tests, without connections and foreign changes. The test provides the clock and the
 * addresses.
 */
export function idleHost(): Omit<HostSystem, "clock" | "readHost"> {
  return {
    flows: new FakeFlowTable(),
    listenToFlows: new FakeFlowListener().listen,
    conntrack: { entries: async () => undefined, capacity: async () => undefined },
    memory: { own: () => 0, container: async () => undefined, programs: async () => [] },
    files: new FakeHostFiles({}),
    reservedPorts: new FakeReservedPorts(),
    netNamespace: () => "net:[1]",
    lock: { take: async () => true, release: () => {} },
    setUp: async () => {},
    endOrphans: () => {},
    listenToKernel: () => ({
      pid: undefined,
      ready: Promise.resolve(true),
      ping: async () => {},
      stop: () => {},
    }),
    costlyTables: async () => [],
    compactHeap: () => {},
  };
}
