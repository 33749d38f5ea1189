import { messageOf } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import type { ProxyOptions } from "../config/options.ts";
import { workingFeatures } from "../features/selection.ts";
import { hostFiles, onlineCores } from "../kernel/host.ts";
import type { Nft } from "../kernel/nft.ts";
import { applySettings, conntrackSettings, setOomScore } from "../kernel/sysctl.ts";
import { removeStaleTraceTables } from "../kernel/trace-tables.ts";
import { checkFeatures, type UnsupportedFeature } from "../sync/supported-options.ts";

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
 * Implements `run --init-only`: checks the rules by nft, then sets up the host. The check changes no rules,
 * but loads the kernel modules that they need. conntrack has no settings without its module, which nothing
 * else may have loaded on a node that has just booted.
 * @throws as {@link checkFeatures}, before anything is set
 */
export async function prepareHost(nft: Nft, options: ProxyOptions, logger: Logger): Promise<void> {
  await checkFeatures(nft, options);
  await setUpHost(options, logger);
}

/**
 * Checks whether nft and the kernel have the features of the rules and of optional functions. Logs a warning
 * for each option that has no effect without them, and returns these options.
 * @throws as {@link checkFeatures}
 */
export async function probeHost(
  nft: Nft,
  options: ProxyOptions,
  logger: Logger,
): Promise<readonly UnsupportedFeature[]> {
  const unsupported = await checkFeatures(nft, options);
  for (const { missing, consequence } of unsupported) {
    logger.warn({ error: missing.message, hint: missing.hint }, consequence);
  }
  return unsupported;
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
