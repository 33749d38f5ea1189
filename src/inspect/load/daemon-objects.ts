import { AppError } from "../../base/errors.ts";
import type { UnservedServices } from "../../kube/decode/ignored-service.ts";
import type { DaemonObjects } from "../../sync/daemon-protocol.ts";
import { askDaemon } from "../daemon-socket/daemon-client.ts";
import type { RunningDaemon } from "../daemon-socket/running-daemon.ts";

/**
 * The objects that a daemon holds.
 * @throws AppError HOST when it has ended meanwhile, or gives no usable answer
 */
export async function daemonObjects({ socket }: RunningDaemon): Promise<DaemonObjects> {
  const objects = await askDaemon(socket, "objects");
  if (objects !== undefined) return objects;
  throw new AppError("HOST", `the daemon at ${socket} ended before it gave its objects`, {
    hint: "run the command again",
  });
}

/**
 * The Services that a daemon does not serve, as it learns from the API server.
 * @throws AppError HOST when it gives no usable answer
 */
export async function unservedServices({ socket }: RunningDaemon): Promise<UnservedServices> {
  return (await askDaemon(socket, "unserved")) ?? { ignored: [], loadBalancers: [], problem: "the daemon ended" };
}
