import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import type { ProxyOptions } from "../config/options.ts";
import { workingFeatures } from "../features/selection.ts";
import { hostFiles, onlineCores } from "../kernel/host.ts";
import type { Nft } from "../kernel/nft.ts";
import { applySettings, conntrackSettings, setOomScore } from "../kernel/sysctl.ts";
import { removeStaleTraceTables } from "../kernel/trace-tables.ts";

/**
 * Sets the OOM score and conntrack's sysctls, as kube-proxy does, and the sysctls of enabled features. Logs a
 * warning for each failure.
 */
export async function setUpHost(options: ProxyOptions, logger: Logger): Promise<void> {
  await setOomScore(hostFiles, options.oomScoreAdj, logger);
  const ofConntrack = conntrackSettings(options.conntrack, await onlineCores(hostFiles));
  const ofFeatures = workingFeatures(options).flatMap(
    ({ kernelSettings }) => kernelSettings?.(options.settings) ?? [],
  );
  await applySettings(hostFiles, [...ofConntrack, ...ofFeatures], logger);
}

/**
 * Removes the tables of `trace` commands that were killed, as their rules cost time for each packet. A
 * failure is only logged, and does not prevent the start.
 */
export async function removeStaleTraces(nft: Nft, logger: Logger): Promise<void> {
  try {
    const tables = await removeStaleTraceTables(nft);
    if (tables > 0) logger.info({ tables }, "removed the tables of killed trace commands");
  } catch (error) {
    logger.warn(
      { error: messageOf(error) },
      "cannot remove the tables of killed trace commands, which slow packets down",
    );
  }
}
