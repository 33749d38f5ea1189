import { StubApi } from "../support/stub-api/stub-api.ts";
import { EndpointChurn, fillCluster } from "./cluster.ts";
import { DaemonProcess } from "./daemon-process.ts";
import { clearTables } from "./kernel.ts";
import { KernelMonitor } from "./kernel-monitor.ts";
import type { WorldSize } from "./world.ts";

/** A daemon that follows an API server with a world in it, and an ear at the kernel. */
export interface Follower {
  readonly daemon: DaemonProcess;
  readonly churn: EndpointChurn;
  readonly monitor: KernelMonitor;
  /** From the daemon's start to its first sync, milliseconds. */
  readonly startMs: number;
}

/** Has a daemon follow a world while `use` runs, and then removes everything. */
export async function follow<T>(
  size: WorldSize,
  args: readonly string[],
  use: (follower: Follower) => Promise<T>,
): Promise<T> {
  await clearTables();
  const api = await StubApi.start();
  fillCluster(api, size);
  const started = performance.now();
  const daemon = new DaemonProcess(api.url, ...args);
  try {
    await daemon.synced();
    const startMs = performance.now() - started;
    const monitor = await KernelMonitor.start();
    try {
      return await use({ daemon, churn: new EndpointChurn(api, size), monitor, startMs });
    } finally {
      monitor.stop();
    }
  } finally {
    daemon.memory.stop();
    await daemon.stop();
    await api.close();
  }
}
