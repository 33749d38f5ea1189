import { type AppError, messageOf } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import type { ProxyOptions } from "../config/options.ts";
import { hostFiles, onlineCores, setOomScore } from "../kernel/host.ts";
import type { Nft } from "../kernel/nft.ts";
import { missingFeatures, probeFeatures } from "../kernel/probe.ts";
import { applySettings, conntrackSettings } from "../kernel/sysctl.ts";
import { removeStaleTraceTables } from "../kernel/trace-tables.ts";
import { fastPathFeatures, requiredFeatures } from "../ruleset/required-features.ts";

/** Sets what kube-proxy sets on its host: the OOM score and conntrack's sysctls. Logs a warning for each failure. */
export async function setUpHost(options: ProxyOptions, logger: Logger): Promise<void> {
  await setOomScore(hostFiles, options.oomScoreAdj, logger);
  await setConntrack(options, logger);
}

/**
 * Has the kernel load the modules that the rules need, by a check of them that changes nothing: the settings of conntrack
 * exist only once its module is loaded, and on a node that has just booted nothing else may have done so. A failure is
 * logged: the daemon ends with the same one.
 */
export async function loadKernelModules(
  nft: Nft,
  { fastPath }: Pick<ProxyOptions, "fastPath">,
  logger: Logger,
): Promise<void> {
  try {
    await probeFeatures(nft, requiredFeatures());
    if (fastPath) await missingFeatures(nft, fastPathFeatures());
  } catch (error) {
    logger.warn({ error: messageOf(error) }, "cannot check the rules, so kernel modules may be missing");
  }
}

/** Returns what `--fast-path` asks for and this kernel or nft lacks; undefined for nothing. Logs it as a warning. */
export async function missingFastPath(
  nft: Nft,
  { fastPath }: Pick<ProxyOptions, "fastPath">,
  logger: Logger,
): Promise<AppError | undefined> {
  if (!fastPath) return undefined;
  const missing = await missingFeatures(nft, fastPathFeatures());
  if (missing !== undefined) {
    logger.warn({ error: missing.message, hint: missing.hint }, "no connection takes the fast path");
  }
  return missing;
}

/**
 * Sets conntrack's sysctls again once the rules are in the kernel, which may have loaded the conntrack module only
 * then. Failures were logged the first time.
 */
export async function setConntrackAgain(options: ProxyOptions, logger: Logger): Promise<void> {
  await setConntrack(options, {
    debug: (fields, message) => logger.debug(fields, message),
    info: (fields, message) => logger.info(fields, message),
    warn: (fields, message) => logger.debug(fields, message),
    error: (fields, message) => logger.error(fields, message),
  });
}

async function setConntrack(options: ProxyOptions, logger: Logger): Promise<void> {
  const settings = conntrackSettings(options.conntrack, await onlineCores(hostFiles, 1));
  await applySettings(hostFiles, settings, logger);
}

/**
 * Removes the tables of `trace` commands that were killed: their rules cost every packet a look. A failure is logged:
 * it is no reason not to start.
 */
export async function removeStaleTraces(nft: Nft, logger: Logger): Promise<void> {
  try {
    const tables = await removeStaleTraceTables(nft);
    if (tables > 0) logger.info({ tables }, "removed the tables of traces that were killed");
  } catch (error) {
    logger.warn({ error: messageOf(error) }, "cannot look for the tables of traces that were killed");
  }
}
