import { setTimeout as sleep } from "node:timers/promises";
import { counted } from "../../base/text.ts";
import { HEALTHZ_PORT, METRICS_PORT } from "../../config/composed-options.ts";
import { areHealthy, gatherFleet, untilHealthy } from "../../inspect/fleet/gather-fleet.ts";
import type { FleetNode } from "../../inspect/fleet/node-status.ts";
import { HttpApiClient } from "../../kube/client/client.ts";
import { loadConnection } from "../../kube/client/load-connection.ts";
import { type Argv, isSet, textArgument } from "../command.ts";
import { commandOptions, USER_AGENT, withUserKubeconfig } from "../options.ts";
import { type CommandResult, EXIT } from "../output.ts";
import { fleetText } from "../print/fleet-text.ts";
import { outputFormat } from "../print/output-format.ts";
import type { Progress } from "../print/progress.ts";
import { namespaceArgument } from "../service-argument.ts";

const POLL_MS = 2000;
const WAIT_MS = 10 * 60_000;

/**
 * `fleet`: a line for each node of the cluster, the worst first. `--wait` until all are healthy, 10 minutes at most.
 * Exit code 0: all are healthy; 1: some are not.
 */
export async function run(argv: Argv, progress: Progress): Promise<CommandResult> {
  const format = outputFormat(argv, ["text", "json"]);
  const { options, notices } = commandOptions(argv);
  const { client: access } = withUserKubeconfig(options, process.env);
  const client = new HttpApiClient({
    connect: () => loadConnection({ ...access, env: process.env }),
    userAgent: USER_AGENT,
  });
  const request = {
    client,
    namespace: namespaceArgument(argv) ?? "kube-system",
    selector: textArgument(argv, "selector") ?? "app.kubernetes.io/name=nft-proxy",
    healthPort: options.healthzBindAddress?.port ?? HEALTHZ_PORT,
    metricsPort: options.metricsBindAddress?.port ?? METRICS_PORT,
  };
  const gather = () => gatherFleet(request);
  const pause = (nodes: readonly FleetNode[]) => {
    progress.step(waitingText(nodes));
    return sleep(POLL_MS);
  };
  try {
    progress.step("asking the nodes");
    const nodes = isSet(argv, "wait") ? await untilHealthy(gather, WAIT_MS, pause) : await gather();
    const output = format === "json" ? `${JSON.stringify({ nodes }, null, 2)}\n` : fleetText(nodes);
    return { exitCode: areHealthy(nodes) ? EXIT.ok : EXIT.refused, output, notices };
  } finally {
    client.close();
  }
}

function waitingText(nodes: readonly FleetNode[]): string {
  const sick = nodes.filter(({ state }) => state !== "healthy");
  return `waiting for ${counted(sick.length, "node")} of ${nodes.length}, such as ${sick[0]?.node} (${sick[0]?.state})`;
}
