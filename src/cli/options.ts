import { existsSync, readFileSync } from "node:fs";
import { hostname } from "node:os";
import { AppError } from "../base/errors.ts";
import { readFlags } from "../config/flags.ts";
import type { ConfigWarning } from "../config/invalid-value.ts";
import type { ProxyOptions } from "../config/options.ts";
import { resolveOptions } from "../config/resolve.ts";
import { isDenied, type RunningDaemon, runningDaemon } from "../inspect/daemon-socket/daemon-client.ts";
import type { LoadRequest } from "../inspect/load/load-request.ts";
import { systemReason } from "../kube/files/diagnostic.ts";
import { type Argv, listArgument, textArgument } from "./command.ts";

/** The options that a command runs with, and the notices about them. */
export interface CommandOptions {
  readonly options: ProxyOptions;
  readonly notices: readonly string[];
  /** The daemon that the options are from; absent when they are from flags, a file or the defaults. */
  readonly daemon?: RunningDaemon;
  /** The socket of a daemon that this user may not ask. */
  readonly deniedSocket?: string;
  /** Whether the options are the defaults alone, which need not be those of a daemon that does not answer here. */
  readonly areDefaults?: boolean;
  /** Why something that listens on the daemon's socket gives no usable answer. */
  readonly socketProblem?: string;
}

/** Sent to the API server with every request. */
export const USER_AGENT = `nft-proxy/${__VERSION__}`;

/** The request for the objects of `--from`, of the daemon, or of the cluster. */
export function loadRequest(
  argv: Argv,
  { options, daemon, deniedSocket }: Omit<CommandOptions, "notices">,
): LoadRequest {
  return {
    ...(deniedSocket === undefined ? {} : { deniedSocket }),
    options: withUserKubeconfig(options, process.env),
    ...(daemon === undefined ? {} : { daemon }),
    nodeName: daemon?.state.nodeName ?? nodeNameOf(options),
    paths: listArgument(argv, "from"),
    stdin: process.stdin,
    env: process.env,
    userAgent: USER_AGENT,
  };
}

/**
 * Options with the kubeconfig of kubectl where none is configured: the first file of $KUBECONFIG, or the user's own. None
 * in a pod, which has its service account. For commands that a user starts; the daemon does as kube-proxy does.
 */
export function withUserKubeconfig(options: ProxyOptions, env: NodeJS.ProcessEnv): ProxyOptions {
  const { kubeconfig, master } = options.client;
  if (kubeconfig !== "" || master !== "" || env.KUBERNETES_SERVICE_HOST !== undefined) return options;
  const own = `${env.HOME ?? ""}/.kube/config`;
  const found = env.KUBECONFIG ? env.KUBECONFIG.split(":")[0] : existsSync(own) ? own : undefined;
  return found === undefined ? options : { ...options, client: { ...options.client, kubeconfig: found } };
}

/**
 * The options that flags and `--config` make.
 * @throws AppError BAD_ARGUMENT; BAD_CONFIG
 */
export function commandOptions(argv: Argv): CommandOptions {
  const path = textArgument(argv, "config");
  const { options, warnings } = resolveOptions({
    flags: readFlags(argv),
    ...(path === undefined || path === "" ? {} : { configText: readConfigFile(path), configName: path }),
  });
  return { options, notices: warningNotices(warnings) };
}

/** Flags that do not choose a desired state: the daemon's options are used all the same. */
const NEUTRAL: ReadonlySet<string> = new Set(["daemon-socket", "nft-path", "v", "logging-format"]);

/**
 * The options of the daemon on this host; those of flags and `--config` where these are given, where no daemon
 * answers, or where it programs another network namespace.
 * @throws AppError BAD_ARGUMENT; BAD_CONFIG; HOST for a daemon that gives no usable answer
 */
export async function optionsBesideDaemon(argv: Argv): Promise<CommandOptions> {
  const own = commandOptions(argv);
  const given = readFlags(argv).map(({ flag }) => flag.name);
  if (textArgument(argv, "config") || given.some((name) => !NEUTRAL.has(name))) return own;
  const { daemonSocket } = own.options;
  const daemon = await runningDaemon(daemonSocket);
  if (daemon === undefined) {
    return { ...own, areDefaults: true, ...(isDenied(daemonSocket) ? { deniedSocket: daemonSocket } : {}) };
  }
  if (!daemon.isHere) {
    const notice = `note: the daemon at ${daemon.socket} programs another network namespace and is not asked`;
    return { ...own, notices: [...own.notices, notice], areDefaults: true };
  }
  const nftPath = given.includes("nft-path") ? own.options.nftPath : daemon.state.options.nftPath;
  return { options: { ...daemon.state.options, nftPath }, notices: own.notices, daemon };
}

/**
 * As {@link optionsBesideDaemon}, but for commands that are asked when something is wrong: with a warning in place of an
 * error where the daemon gives no usable answer, as it hangs or is of another version.
 * @throws AppError BAD_ARGUMENT; BAD_CONFIG
 */
export async function optionsDespiteDaemon(argv: Argv): Promise<CommandOptions> {
  try {
    return await optionsBesideDaemon(argv);
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== "HOST") throw error;
    const own = commandOptions(argv);
    const notices = [...own.notices, `warning: ${error.message}`];
    return { ...own, notices, areDefaults: true, socketProblem: error.message };
  }
}

/** Warnings about a configuration as lines for the user. */
export function warningNotices(warnings: readonly ConfigWarning[]): string[] {
  return warnings.map(({ message }) => `warning: ${message}`);
}

/** The name of the node that we run on: `--hostname-override`, or the host's own in lower case, as kube-proxy has it. */
export function nodeNameOf({ hostnameOverride }: ProxyOptions): string {
  return hostnameOverride === "" ? hostname().trim().toLowerCase() : hostnameOverride;
}

/**
 * The text of a configuration file.
 * @throws AppError BAD_CONFIG
 */
export function readConfigFile(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new AppError("BAD_CONFIG", `cannot read the configuration ${path}: ${systemReason(error)}`);
  }
}
