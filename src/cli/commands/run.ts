import { messageOf } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import { readFlags } from "../../config/flags.ts";
import { logLevel, type ProxyOptions } from "../../config/options.ts";
import { printConfiguration } from "../../config/print.ts";
import { planReload } from "../../config/reload.ts";
import { assembleDaemon } from "../../daemon/assemble.ts";
import { hostFiles, onlineCores, setOomScore } from "../../kernel/host.ts";
import { Nft } from "../../kernel/nft.ts";
import { probeFeatures } from "../../kernel/probe.ts";
import { applySettings, conntrackSettings } from "../../kernel/sysctl.ts";
import { type Argv, isSet, listArgument, textArgument } from "../command.ts";
import { ConfigWatch } from "../config-watch.ts";
import { DryRunNft } from "../dry-run-nft.ts";
import { createLogger } from "../logging.ts";
import { type CommandOptions, commandOptions, nodeNameOf } from "../options.ts";
import { type CommandResult, EXIT } from "../output.ts";
import { onSignals } from "../signals.ts";
import { writeSnapshot } from "../snapshot.ts";
import { clusterObjects, fileObjects, NO_EVENTS } from "../sources.ts";
import { writeTextFile } from "../text-file.ts";
import { run as cleanup } from "./cleanup.ts";

/** `run`: the daemon. Ends on SIGTERM and SIGINT, and leaves the rules in the kernel. */
export async function run(argv: Argv): Promise<CommandResult> {
  if (isSet(argv, "cleanup")) return await cleanup(argv);
  const { options, notices } = commandOptions(argv);
  const target = textArgument(argv, "write-config-to");
  if (target !== undefined) {
    writeTextFile(target, printConfiguration(options));
    return { exitCode: EXIT.ok, output: `wrote the configuration to ${target}\n`, notices };
  }
  const logger = createLogger(options.logFormat, logLevel(options.logVerbosity), process.stderr);
  for (const notice of notices) logger.warn({}, notice);
  const dryRun = isSet(argv, "dry-run");
  if (!dryRun) await setUpHost(options, logger);
  if (isSet(argv, "init-only")) return { exitCode: EXIT.ok };
  return await serve(argv, { options, notices }, logger, dryRun);
}

async function serve(
  argv: Argv,
  { options }: CommandOptions,
  logger: ReturnType<typeof createLogger>,
  dryRun: boolean,
): Promise<CommandResult> {
  const nodeName = nodeNameOf(options);
  const nft = dryRun ? new DryRunNft(options.nftPath, logger) : new Nft({ path: options.nftPath });
  await probeFeatures(nft);
  logger.info({ version: __VERSION__, node: nodeName, nft: await nft.version(), dryRun }, "nft-proxy starts");
  const paths = listArgument(argv, "from");
  const objects = paths.length > 0 ? fileObjects(paths, logger) : await clusterObjects(options, nodeName, logger);
  const assembled = await assembleDaemon({
    options,
    nodeName,
    version: __VERSION__,
    nft,
    logger,
    makeSource: objects.makeSource,
    eventSink: dryRun ? NO_EVENTS : objects.eventSink,
    flags: new Map(readFlags(argv).map(({ flag, value }) => [flag.name, String(value)])),
    dryRun,
    // The conntrack module may come only with our rules: what it lacked can be set now.
    onFirstSync: () => void (dryRun ? undefined : setConntrack(options, withoutWarnings(logger))),
  });
  let current = options;
  const ended = onSignals({
    dump: () => writeSnapshot(assembled.daemon.snapshot(), logger),
    logger,
  });
  const watch = new ConfigWatch(textArgument(argv, "config"), () => {
    const reload = planned(argv, current, logger);
    if (reload === undefined) return;
    if (current.configChange === "exit") return ended.end("the configuration changed");
    current = reload;
    logger.level = logLevel(current.logVerbosity);
    assembled.setOptions(current);
  });
  await assembled.start();
  watch.start();
  const { reason, failed } = await ended.promise;
  logger.info({ reason }, "stopping; the rules stay in the kernel");
  watch.stop();
  await assembled.stop();
  objects.close();
  return { exitCode: failed ? EXIT.refused : EXIT.ok };
}

/** What the changed configuration comes to; undefined when it cannot be used, or changes nothing. */
function planned(argv: Argv, current: ProxyOptions, logger: Logger): ProxyOptions | undefined {
  try {
    const { options, notices } = commandOptions(argv);
    const { options: next, taken, needRestart } = planReload(current, options);
    if (taken.length + needRestart.length === 0) return undefined;
    for (const notice of notices) logger.warn({}, notice);
    logger.info({ taken }, "the configuration changed");
    if (needRestart.length > 0) logger.warn({ needRestart }, "some changes take effect only after a restart");
    return next;
  } catch (error) {
    logger.error({ error: messageOf(error) }, "the changed configuration cannot be used; the old one stays");
    return undefined;
  }
}

/** What kube-proxy sets on its host. Whatever the host forbids is warned about and left. */
async function setUpHost(options: ProxyOptions, logger: Logger): Promise<void> {
  await setOomScore(hostFiles, options.oomScoreAdj, logger);
  await setConntrack(options, logger);
}

/** What could not be set the first time has been warned about. */
function withoutWarnings(logger: Logger): Logger {
  return {
    debug: (fields, message) => logger.debug(fields, message),
    info: (fields, message) => logger.info(fields, message),
    warn: (fields, message) => logger.debug(fields, message),
    error: (fields, message) => logger.error(fields, message),
  };
}

async function setConntrack(options: ProxyOptions, logger: Logger): Promise<void> {
  const settings = conntrackSettings(options.conntrack, await onlineCores(hostFiles, 1));
  await applySettings(hostFiles, settings, logger);
}
