import { counted } from "../../base/text.ts";
import { printConfiguration } from "../../config/configuration-file.ts";
import { resolveOptions } from "../../config/resolve.ts";
import { type Argv, isSet, type Reporter, textArgument } from "../command.ts";
import { type CommandResult, EXIT } from "../command-result.ts";
import { readConfigFile, requestBesideDaemon, warningNotices } from "../options.ts";

/**
 * `config`: prints the effective configuration as a KubeProxyConfiguration, or with `--defaults` the default
 * one. `--validate FILE` checks a file and lists its ignored and unknown fields.
 */
export async function run(argv: Argv, reporter: Reporter): Promise<CommandResult> {
  const file = textArgument(argv, "validate");
  if (file !== undefined) return validated(file, isSet(argv, "strict"), reporter);
  if (isSet(argv, "defaults")) return { output: printConfiguration(resolveOptions().options) };
  const { options, daemon, deniedSocket } = await requestBesideDaemon(argv, reporter);
  const head =
    daemon === undefined ? "" : `# effective configuration of the daemon on ${daemon.state.nodeName}\n`;
  if (deniedSocket !== undefined)
    reporter.notice([
      `note: these are the defaults; a daemon may have others, but only root may ask it at ${deniedSocket}`,
    ]);
  return { output: `${head}${printConfiguration(options)}` };
}

/** @param isStrict whether warnings make it invalid: kube-proxy's lenient reading accepts misspelt fields */
function validated(file: string, isStrict: boolean, { notice }: Reporter): CommandResult {
  const { warnings } = resolveOptions({ configText: readConfigFile(file), configName: file });
  notice(warningNotices(warnings));
  const isValid = !isStrict || warnings.length === 0;
  const found = warnings.length === 0 ? "" : `, ${counted(warnings.length, "warning")}`;
  return {
    exitCode: isValid ? EXIT.ok : EXIT.found,
    output: `${file}: ${isValid ? "valid" : "not valid with --strict"}${found}\n`,
  };
}
