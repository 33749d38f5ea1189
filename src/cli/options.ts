import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { AppError, messageOf } from "../base/errors.ts";
import type { ConfigWarning } from "../config/diagnostic.ts";
import { readFlags } from "../config/flags.ts";
import type { ProxyOptions } from "../config/options.ts";
import { resolveOptions } from "../config/resolve.ts";
import type { LoadRequest } from "../inspect/load/load-request.ts";
import { type Argv, listArgument, textArgument } from "./command.ts";

/** The options that a command runs with, and the notices about them. */
export interface CommandOptions {
  readonly options: ProxyOptions;
  readonly notices: readonly string[];
}

/** Sent to the API server with every request. */
export const USER_AGENT = `nft-proxy/${__VERSION__}`;

/** The request for the objects of `--from`, or for those of the cluster. */
export function loadRequest(argv: Argv, options: ProxyOptions): LoadRequest {
  return {
    options,
    nodeName: nodeNameOf(options),
    paths: listArgument(argv, "from"),
    stdin: process.stdin,
    env: process.env,
    userAgent: USER_AGENT,
  };
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
    throw new AppError("BAD_CONFIG", `cannot read the configuration ${path}: ${messageOf(error)}`);
  }
}
