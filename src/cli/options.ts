import { existsSync, readFileSync } from "node:fs";
import { hostname } from "node:os";
import { AppError } from "../base/errors.ts";
import { readFlags } from "../config/flags.ts";
import type { ConfigWarning } from "../config/invalid-value.ts";
import type { ProxyOptions } from "../config/options.ts";
import { resolveOptions } from "../config/resolve.ts";
import type { LoadRequest } from "../inspect/load/load-request.ts";
import { systemReason } from "../kube/files/diagnostic.ts";
import { isDenied, runningDaemon } from "../socket/daemon-client.ts";
import { type Argv, listArgument, textArgument } from "./command.ts";

/** The options of a command, and the daemon that gave them, if they do not come from flags or a file. */
export interface CommandOptions
  extends Pick<LoadRequest, "options" | "daemon" | "deniedSocket" | "silentSocket"> {
  readonly notices: readonly string[];
  /** Whether the options are only the defaults. A daemon that cannot be asked may have others. */
  readonly areDefaults?: boolean;
  /** Why the daemon's socket gives no usable answer. */
  readonly socketProblem?: string;
}

/** The User-Agent header of requests to the API server. */
export const USER_AGENT = `nft-proxy/${__VERSION__}`;

/** The request for objects: from `--from`, the daemon or the cluster. */
export function loadRequest(
  argv: Argv,
  { options, daemon, deniedSocket, silentSocket }: Omit<CommandOptions, "notices">,
): LoadRequest {
  return {
    deniedSocket,
    silentSocket,
    options: withUserKubeconfig(options, process.env),
    daemon,
    nodeName: daemon?.state.nodeName ?? nodeNameOf(options),
    context: textArgument(argv, "context"),
    paths: listArgument(argv, "from"),
    stdin: process.stdin,
    env: process.env,
    userAgent: USER_AGENT,
  };
}

/**
 * Adds kubectl's kubeconfig if none is configured: the first file of $KUBECONFIG, or the user's own. In a
 * pod, the service account is used instead. Only for commands that a user starts: the daemon finds the API
 * server as kube-proxy does.
 */
function withUserKubeconfig(options: ProxyOptions, env: NodeJS.ProcessEnv): ProxyOptions {
  const { kubeconfig, master } = options.client;
  if (kubeconfig !== "" || master !== "" || env.KUBERNETES_SERVICE_HOST !== undefined) return options;
  const own = `${env.HOME ?? ""}/.kube/config`;
  const found = env.KUBECONFIG ? env.KUBECONFIG.split(":")[0] : existsSync(own) ? own : undefined;
  return found === undefined ? options : { ...options, client: { ...options.client, kubeconfig: found } };
}

/**
 * The options of flags and `--config`.
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

/** Flags that do not affect the desired state: with these, the daemon's options are still used. */
const NEUTRAL: ReadonlySet<string> = new Set(["daemon-socket", "nft-path", "v", "logging-format"]);

/**
 * The options of the daemon on this host. Those of flags and `--config` if any are given, if no daemon
 * answers, or if it programs another network namespace.
 * @throws AppError BAD_ARGUMENT; BAD_CONFIG; HOST for a daemon that gives no usable answer
 */
export async function optionsBesideDaemon(argv: Argv): Promise<CommandOptions> {
  const own = commandOptions(argv);
  const given = readFlags(argv).map(({ flag }) => flag.name);
  if (
    textArgument(argv, "config") ||
    textArgument(argv, "context") ||
    given.some((name) => !NEUTRAL.has(name))
  )
    return own;
  const { daemonSocket } = own.options;
  const daemon = await runningDaemon(daemonSocket);
  if (daemon === undefined) return { ...own, areDefaults: true, ...unansweredSocket(daemonSocket) };
  if (!daemon.isHere) {
    const notice = `note: not using the daemon at ${daemon.socket}: it programs another network namespace`;
    return { ...own, notices: [...own.notices, notice], areDefaults: true };
  }
  const nftPath = given.includes("nft-path") ? own.options.nftPath : daemon.state.options.nftPath;
  return { options: { ...daemon.state.options, nftPath }, notices: own.notices, daemon };
}

function unansweredSocket(socket: string): Pick<CommandOptions, "deniedSocket" | "silentSocket"> {
  if (socket === "") return {};
  return isDenied(socket) ? { deniedSocket: socket } : { silentSocket: socket };
}

/**
 * As {@link optionsBesideDaemon}, for commands that diagnose faults: a daemon that hangs or has another
 * version causes a warning, not an error.
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

/** Warnings about a configuration, one line each. */
export function warningNotices(warnings: readonly ConfigWarning[]): string[] {
  return warnings.map(({ message }) => `warning: ${message}`);
}

/** This node's name: `--hostname-override`, or the host's name in lower case, as in kube-proxy. */
export function nodeNameOf({ hostnameOverride }: ProxyOptions): string {
  return hostnameOverride === "" ? hostname().trim().toLowerCase() : hostnameOverride;
}

/**
 * Reads a configuration file.
 * @throws AppError BAD_CONFIG
 */
export function readConfigFile(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new AppError("BAD_CONFIG", `cannot read the configuration ${path}: ${systemReason(error)}`);
  }
}
