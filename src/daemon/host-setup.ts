import type { Logger } from "../base/logger.ts";
import type { ProxyOptions } from "../config/options.ts";
import { hostFiles, onlineCores, setOomScore } from "../kernel/host.ts";
import { applySettings, conntrackSettings } from "../kernel/sysctl.ts";

/** Sets what kube-proxy sets on its host: the OOM score and conntrack's sysctls. Logs a warning for each failure. */
export async function setUpHost(options: ProxyOptions, logger: Logger): Promise<void> {
  await setOomScore(hostFiles, options.oomScoreAdj, logger);
  await setConntrack(options, logger);
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
