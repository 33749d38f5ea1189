import { StubApi } from "../support/stub-api/stub-api.ts";
import { EndpointChurn, fillCluster } from "./cluster.ts";
import type { ClusterSize } from "./cluster-objects.ts";
import { DaemonProcess } from "./daemon-process.ts";
import { clearTables } from "./kernel.ts";
import { KernelMonitor } from "./kernel-monitor.ts";

/** A daemon that follows an API server with the objects of a cache. */
export interface Follower {
  readonly api: StubApi;
  readonly daemon: DaemonProcess;
  readonly churn: EndpointChurn;
  /** Time from the daemon's start to its first sync, milliseconds. */
  readonly startMs: number;
}

/** Runs `use` while a daemon follows a cache, and then removes everything. */
export async function follow<T>(
  size: ClusterSize,
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
    return await use({
      api,
      daemon,
      churn: new EndpointChurn(api, size),
      startMs: performance.now() - started,
    });
  } finally {
    daemon.memory.stop();
    await daemon.stop();
    await api.close();
  }
}

/**
 * Like {@link follow}, with a monitor of the kernel. The monitor starts before the daemon and slows its start
 * down, because nft 1.1.3 takes minutes to start listening once there are many elements.
 */
export async function followClosely<T>(
  size: ClusterSize,
  args: readonly string[],
  use: (follower: Follower, monitor: KernelMonitor) => Promise<T>,
): Promise<T> {
  await clearTables();
  const monitor = await KernelMonitor.start();
  try {
    return await follow(size, args, async (follower) => {
      await monitor.caughtUp();
      return await use(follower, monitor);
    });
  } finally {
    monitor.stop();
  }
}
