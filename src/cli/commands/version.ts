import { ageText } from "../../base/duration.ts";
import { messageOf } from "../../base/errors.ts";
import { nftProgram } from "../../kernel/nft.ts";
import { type HostVersions, hostVersions } from "../../kernel/versions.ts";
import { isDenied, type RunningDaemon, runningDaemon } from "../../socket/daemon-client.ts";
import { outputFormat } from "../argument-values.ts";
import { type Argv, type Reporter, textArgument } from "../command.ts";
import { type CommandResult, jsonText } from "../command-result.ts";
import { commandOptions } from "../options.ts";

/** The output of `--output json`: schemas/version.schema.json. */
export interface Versions extends HostVersions {
  readonly nftProxy: string;
  /** The running daemon, or the reason why its version is unknown. */
  readonly daemon: ReturnType<typeof versionOf> | { readonly problem: string };
}

/** `version`: this program, the running daemon, nft, the kernel and Node.js. Changes nothing. */
export async function run(argv: Argv, reporter: Reporter): Promise<CommandResult> {
  const format = outputFormat(argv, ["text", "json"]);
  const options = commandOptions(argv, reporter);
  const daemon = await runningDaemon(options.daemonSocket).catch(messageOf);
  const daemonPath = typeof daemon === "object" ? daemon.state.options.nftPath : undefined;
  const path = textArgument(argv, "nft-path") ?? daemonPath ?? options.nftPath;
  const versions: Versions = {
    nftProxy: __VERSION__,
    daemon:
      typeof daemon === "object" ? versionOf(daemon) : { problem: daemon ?? absence(options.daemonSocket) },
    ...(await hostVersions(nftProgram({ path }))),
  };
  return { output: format === "json" ? jsonText(versions) : versionsText(versions) };
}

function absence(socket: string): string {
  if (socket === "") return "not asked";
  return isDenied(socket) ? `only root may query it at ${socket}` : `none answers at ${socket}`;
}

function versionOf({ socket, state: { version, nodeName, startedAt, now } }: RunningDaemon) {
  return { version, nodeName, socket, uptimeSeconds: Math.round((now - startedAt) / 1000) };
}

/** The versions for people, a line each. */
export function versionsText({ nftProxy, daemon, nft, kernel, socat, nodejs }: Versions): string {
  const running =
    "problem" in daemon
      ? daemon.problem
      : `${daemon.version} on ${daemon.nodeName}, up for ${ageText(daemon.uptimeSeconds)}`;
  return [
    `nft-proxy  ${nftProxy}`,
    `daemon     ${running}`,
    `nft        ${nft}`,
    `kernel     ${kernel}`,
    `socat      ${socat}`,
    `Node.js    ${nodejs}\n`,
  ].join("\n");
}
