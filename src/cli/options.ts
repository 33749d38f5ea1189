import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { AppError } from "../base/errors.ts";
import { readFlags } from "../config/flags.ts";
import type { ProxyOptions } from "../config/options.ts";
import { resolveOptions } from "../config/resolve.ts";
import type { LoadRequest } from "../inspect/load/load-request.ts";
import { systemReason } from "../kube/files/diagnostic.ts";
import { NO_INPUT } from "../kube/files/read-files.ts";
import { isDenied, type RunningDaemon, runningDaemon } from "../socket/daemon-client.ts";
import { type Argv, listArgument, type Reporter, textArgument } from "./command.ts";

/** A request for objects, and how far its options are those of the daemon. */
export interface CommandRequest extends LoadRequest {
  /** Whether the options are only the defaults. A daemon that cannot be asked may have others. */
  readonly areDefaults?: boolean;
  /** Why the daemon's socket gives no usable answer. */
  readonly socketProblem?: string;
}

/** The User-Agent header of requests to the API server. */
export const USER_AGENT = `nft-proxy/${__VERSION__}`;

/** The request for objects: from `--from`, the daemon or the cluster. @param daemon gave the options */
export function loadRequest(argv: Argv, options: ProxyOptions, daemon?: RunningDaemon): LoadRequest {
  const paths = listArgument(argv, "from");
  return {
    options,
    daemon,
    nodeName: daemon?.state.nodeName ?? nodeNameOf(options),
    context: textArgument(argv, "context"),
    paths,
    // Opening it makes a pipe non-blocking for every process that shares it.
    stdin: paths.includes("-") ? process.stdin : NO_INPUT,
    env: process.env,
    userAgent: USER_AGENT,
  };
}

/**
 * The options of flags and `--config`, and warnings about values without effect.
 * @throws AppError BAD_ARGUMENT; BAD_CONFIG
 */
export function givenOptions(argv: Argv) {
  const path = textArgument(argv, "config");
  return resolveOptions({
    flags: readFlags(argv),
    ...(path === undefined || path === "" ? {} : { configText: readConfigFile(path), configName: path }),
  });
}

/** As {@link givenOptions}, but reports the warnings. */
export function commandOptions(argv: Argv, { notice }: Reporter): ProxyOptions {
  const { options, warnings } = givenOptions(argv);
  notice(warningNotices(warnings));
  return options;
}

/** Flags that do not affect the desired state: with these, the daemon's options are still used. */
const NEUTRAL: ReadonlySet<string> = new Set(["daemon-socket", "nft-path", "v", "logging-format"]);

/**
 * The request of a command, with the options of the daemon on this host; with those of flags and `--config`
 * if any but {@link NEUTRAL} ones are given, if no daemon answers, or if it programs another network
 * namespace.
 * @param isDiagnosis whether a daemon that hangs or has another version causes a warning, not an error
 * @throws AppError BAD_ARGUMENT; BAD_CONFIG; HOST for a daemon that gives no usable answer
 */
export async function requestBesideDaemon(
  argv: Argv,
  reporter: Reporter,
  { isDiagnosis = false } = {},
): Promise<CommandRequest> {
  const options = commandOptions(argv, reporter);
  const own = loadRequest(argv, options);
  const given = readFlags(argv).map(({ flag }) => flag.name);
  if (textArgument(argv, "config") || own.context || given.some((name) => !NEUTRAL.has(name))) return own;
  const { daemonSocket } = options;
  const defaults = { ...own, areDefaults: true };
  try {
    const daemon = await runningDaemon(daemonSocket);
    if (daemon === undefined) return { ...defaults, ...unansweredSocket(daemonSocket) };
    if (daemon.isHere) {
      const nftPath = given.includes("nft-path") ? options.nftPath : daemon.state.options.nftPath;
      return loadRequest(argv, { ...daemon.state.options, nftPath }, daemon);
    }
    reporter.notice([
      `note: not using the daemon at ${daemon.socket}: it programs another network namespace`,
    ]);
    return defaults;
  } catch (error) {
    if (!isDiagnosis || !(error instanceof AppError) || error.code !== "HOST") throw error;
    reporter.notice([`warning: ${error.message}`]);
    return { ...defaults, socketProblem: error.message };
  }
}

function unansweredSocket(socket: string): Pick<LoadRequest, "deniedSocket" | "silentSocket"> {
  if (socket === "") return {};
  return isDenied(socket) ? { deniedSocket: socket } : { silentSocket: socket };
}

/** Warnings about a configuration, one line each. */
export function warningNotices(warnings: readonly string[]): string[] {
  return warnings.map((message) => `warning: ${message}`);
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
