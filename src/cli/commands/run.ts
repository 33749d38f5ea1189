import { setTimeout as sleep } from "node:timers/promises";
import { AppError, evidenceOf, messageOf } from "../../base/errors.ts";
import { FAMILIES } from "../../base/family.ts";
import type { Logger } from "../../base/logger.ts";
import { printConfiguration } from "../../config/configuration-file.ts";
import { readFlags } from "../../config/flags.ts";
import { logLevel, type ProxyOptions } from "../../config/options.ts";
import { type ConfigState, planReload } from "../../config/reload.ts";
import { type ConfigPoller, configPoller } from "../../daemon/config-poller.ts";
import { createDaemon, type Daemon } from "../../daemon/daemon.ts";
import { removeStaleTraces, setUpHost } from "../../daemon/host-setup.ts";
import { hostSystem } from "../../daemon/host-system.ts";
import { type AdjustableLogger, createLogger, rememberingLog } from "../../daemon/logging.ts";
import { clusterOrigin, fileOrigin, type ObjectOrigin } from "../../daemon/object-source.ts";
import { writePrivateFile, writeStateFile } from "../../daemon/state-file.ts";
import { type DaemonNft, daemonNft, dryRunNft } from "../../kernel/daemon-nft.ts";
import { hostFiles } from "../../kernel/host.ts";
import { openTables } from "../../kernel/netlink-tables.ts";
import { type Nft, nftProgram } from "../../kernel/nft.ts";
import { nftMemoryLimit } from "../../kernel/nft-limits.ts";
import { tableNames } from "../../kernel/nft-listings.ts";
import { OwnCommits } from "../../kernel/own-commits.ts";
import { runProcess } from "../../kernel/process.ts";
import { systemClock } from "../../kernel/system-clock.ts";
import { NO_TABLES } from "../../kernel/table-reader.ts";
import { hostVersions } from "../../kernel/versions.ts";
import { TABLE_NAME } from "../../nft/ast/ruleset.ts";
import { checkFeatures, supportedOptions } from "../../sync/supported-options.ts";
import { type Argv, isSet, listArgument, type Reporter, textArgument } from "../command.ts";
import { type CommandResult, EXIT } from "../command-result.ts";
import { givenOptions, nodeNameOf, USER_AGENT, warningNotices } from "../options.ts";
import { onSignals } from "../signals.ts";
import { run as cleanup } from "./cleanup.ts";

/**
 * `run`: the daemon. SIGTERM and SIGINT end it and leave the rules in the kernel; SIGHUP reads `--config`
 * again.
 */
export async function run(argv: Argv, reporter: Reporter): Promise<CommandResult> {
  if (isSet(argv, "cleanup")) return await cleanup(argv, reporter);
  // Created before the configuration is read, so that no change is missed.
  const poller = configPoller(textArgument(argv, "config"));
  const { options, warnings } = givenOptions(argv);
  const target = textArgument(argv, "write-config-to");
  if (target !== undefined) {
    reporter.notice(warningNotices(warnings));
    writePrivateFile(target, printConfiguration(options));
    return { exitCode: EXIT.ok, output: `wrote the configuration to ${target}\n` };
  }
  const log = rememberingLog(process.stderr);
  const logger = createLogger(options.logFormat, logLevel(options.logVerbosity), log);
  logWarnings(warnings, logger);
  if (!isSet(argv, "init-only")) return await serve(argv, options, poller, logger, log.lines);
  if (!isSet(argv, "dry-run")) {
    // The check comes before anything is set, as it may fail. It changes no rules, but loads the kernel
    // modules that they need. conntrack has no settings without its module, which nothing else may have
    // loaded on a node that has just booted.
    await checkFeatures(nftProgram({ path: options.nftPath }), options);
    await setUpHost(options, logger);
  }
  return { exitCode: EXIT.ok };
}

function logWarnings(warnings: readonly string[], logger: Logger): void {
  for (const message of warnings) logger.warn({}, message);
}

/**
 * Maximum time to stop, milliseconds: half of the grace period in deploy/base/daemon-set.yaml. An nft that
 * still runs then is killed with this process.
 */
const LONGEST_STOP = 5000;

async function serve(
  argv: Argv,
  options: ProxyOptions,
  poller: ConfigPoller,
  logger: AdjustableLogger,
  recentLog: () => readonly string[],
): Promise<CommandResult> {
  const dryRun = isSet(argv, "dry-run");
  const opened = await openNft(options, dryRun, logger);
  const { nft } = opened;
  const reader = dryRun ? { tables: NO_TABLES, close: () => {} } : await openTables(nft, systemClock);
  let assembled: Daemon | undefined;
  let reload: (() => void) | undefined;
  // Installed before anything that takes time: the kernel ignores a signal that process 1 of a container does
  // not handle.
  const ended = onSignals(
    {
      SIGHUP: () => readAgain(poller, reload, logger),
      SIGUSR1: () => assembled && writeStateFile(assembled.snapshot(), logger),
    },
    logger,
  );
  let objects: ObjectOrigin | undefined;
  const start = async (): Promise<void> => {
    const unsupported = await checkFeatures(nft, options);
    for (const { missing, consequence } of unsupported)
      logger.warn({ error: missing.message, hint: missing.hint }, consequence);
    const supported = (given: ProxyOptions) => supportedOptions(given, unsupported);
    if (!dryRun) await removeStaleTraces(nft, logger);
    const nodeName = nodeNameOf(options);
    const versions = await hostVersions(nft);
    logger.info({ version: __VERSION__, node: nodeName, ...versions, dryRun }, "nft-proxy starts");
    const paths = listArgument(argv, "from");
    const access = { options, nodeName, env: process.env, userAgent: USER_AGENT };
    objects =
      paths.length > 0
        ? fileOrigin(paths, nodeName, logger, options.features)
        : await clusterOrigin({ ...access, hasRules: await hasRules(nft) }, logger);
    const daemon = await createDaemon({
      ...opened,
      options: supported(options),
      nodeName,
      version: __VERSION__,
      hostVersions: versions,
      tables: reader.tables,
      system: hostSystem,
      logger,
      objects,
      dryRun,
      flags: new Map(readFlags(argv).map(({ flag, value }) => [flag.name, String(value)])),
      recentLog,
    });
    assembled = daemon;
    await daemon.start();
    reload = () => {
      const { options: next, ...state } = readChange(argv, daemon.options, supported, logger);
      daemon.configRead(state);
      if (next === undefined) return;
      logger.level = logLevel(next.logVerbosity);
      daemon.setOptions(next);
    };
    poller.start(reload);
  };
  try {
    // A signal ends a start that a slow nft delays.
    await Promise.race([start(), ended.promise]);
    const { reason, failed } = await ended.promise;
    logger.info(
      { reason },
      dryRun ? "stopping; nothing was changed" : "stopping; the rules stay in the kernel",
    );
    const stopped = assembled?.stop().then(() => true) ?? true;
    if (!(await Promise.race([stopped, sleep(LONGEST_STOP, false)])))
      logger.warn({}, "not everything stopped in time; the rest is killed");
    return { exitCode: failed ? EXIT.failed : EXIT.ok };
  } finally {
    // Anything left open would keep the process alive after a failed start.
    ended.release();
    poller.stop();
    opened.close();
    reader.close();
    objects?.close();
  }
}

async function openNft({ nftPath }: ProxyOptions, dryRun: boolean, logger: Logger): Promise<DaemonNft> {
  if (!dryRun) return daemonNft(nftPath, systemClock, await nftMemoryLimit(hostFiles, runProcess));
  const nft = dryRunNft(nftProgram({ path: nftPath }), logger);
  return { nft, ownCommits: new OwnCommits(systemClock), close: () => {} };
}

/** Whether an earlier process has left rules in the kernel. */
async function hasRules(nft: Nft): Promise<boolean> {
  const tables = await tableNames(nft);
  return FAMILIES.some((family) => tables.has(`${family} ${TABLE_NAME}`));
}

/** Reads the configuration file again for SIGHUP. @param reload absent until the daemon has started */
function readAgain(poller: ConfigPoller, reload: (() => void) | undefined, logger: Logger): void {
  if (reload === undefined)
    logger.info({}, "SIGHUP: still starting; a changed configuration is noticed then");
  else if (poller.hasFile()) {
    poller.readAgain();
    reload();
  } else logger.warn({}, "SIGHUP: there is no configuration file (--config) that can be read again");
}

/**
 * Reads a changed configuration. `options` are those to continue with; absent if it is invalid or changes
 * nothing. Logs the reason.
 */
function readChange(
  argv: Argv,
  current: ProxyOptions,
  supported: (options: ProxyOptions) => ProxyOptions,
  logger: Logger,
): ConfigState & { readonly options?: ProxyOptions } {
  try {
    const { options, warnings } = givenOptions(argv);
    const { options: next, taken, needRestart } = planReload(current, supported(options));
    if (taken.length + needRestart.length === 0) {
      logger.info({}, "the configuration was read again; nothing changed");
      return { problem: undefined, needRestart };
    }
    logWarnings(warnings, logger);
    if (taken.length > 0) logger.info({ taken }, "the configuration changed");
    if (needRestart.length > 0) logger.warn({ needRestart }, "some changes take effect only after a restart");
    return { options: next, problem: undefined, needRestart };
  } catch (error) {
    logger.error(
      { error: messageOf(error), ...evidenceOf(error) },
      "the changed configuration cannot be used: keeping the current one",
    );
    return { problem: withFields(error), needRestart: [] };
  }
}

/** The message of an error of the configuration, with the fields that are invalid. */
function withFields(error: unknown): string {
  const fields = error instanceof AppError ? Object.entries(error.evidence) : [];
  return [messageOf(error), ...fields.map(([field, reason]) => `${field}: ${reason}`)].join("; ");
}
