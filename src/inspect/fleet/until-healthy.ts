import type { Clock } from "../../base/clock.ts";
import type { FleetNode } from "./fleet-report.ts";

/** How to wait for a fleet. */
export interface FleetWait {
  /** Asks all nodes. */
  readonly gather: () => Promise<readonly FleetNode[]>;
  readonly clock: Pick<Clock, "monotonic">;
  /** Waits until the nodes are to be asked again. */
  readonly pause: () => Promise<unknown>;
  /** Milliseconds after which the nodes are given as they are. */
  readonly patience: number;
  /** Told of the nodes before each pause. */
  readonly onWaiting: (nodes: readonly FleetNode[]) => void;
}

/**
 * Asks until all nodes are healthy or the time is over. An API server that has answered may restart meanwhile, and is asked
 * again.
 * @throws what `gather` throws at first, and when the time is over
 */
export async function untilHealthy({
  gather,
  clock,
  pause,
  patience,
  onWaiting,
}: FleetWait): Promise<readonly FleetNode[]> {
  const deadline = clock.monotonic() + patience;
  let nodes = await gather();
  while (!areHealthy(nodes) && clock.monotonic() < deadline) {
    onWaiting(nodes);
    await pause();
    nodes = await gather().catch((error: unknown) => {
      if (clock.monotonic() >= deadline) throw error;
      return nodes;
    });
  }
  return nodes;
}

/** Whether every node's nft-proxy works. */
export function areHealthy(nodes: readonly FleetNode[]): boolean {
  return nodes.every(({ state }) => state === "healthy");
}
