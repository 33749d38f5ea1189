import { counted } from "../../base/text.ts";
import { printConfiguration } from "../../config/configuration-file.ts";
import { resolveOptions } from "../../config/resolve.ts";
import { type Argv, isSet, textArgument } from "../command.ts";
import { type CommandResult, EXIT } from "../command-result.ts";
import { optionsBesideDaemon, readConfigFile, warningNotices } from "../options.ts";

/**
 * `config`: prints the effective configuration as a KubeProxyConfiguration, or with `--defaults` the default
 * one. `--validate FILE` checks a file and lists its ignored and unknown fields.
 */
export async function run(argv: Argv): Promise<CommandResult> {
  const file = textArgument(argv, "validate");
  if (file !== undefined) return validated(file, isSet(argv, "strict"));
  if (isSet(argv, "defaults"))
    return { exitCode: EXIT.ok, output: printConfiguration(resolveOptions().options) };
  const { options, notices, daemon, deniedSocket } = await optionsBesideDaemon(argv);
  const head =
    daemon === undefined ? "" : `# effective configuration of the daemon on ${daemon.state.nodeName}\n`;
  const denied =
    deniedSocket === undefined
      ? []
      : [
          `note: these are the defaults; a daemon may have others, but only root may ask it at ${deniedSocket}`,
        ];
  return {
    exitCode: EXIT.ok,
    output: `${head}${printConfiguration(options)}`,
    notices: [...notices, ...denied],
  };
}

/** @param isStrict whether warnings make it invalid: kube-proxy's lenient reading accepts misspelt fields */
function validated(file: string, isStrict: boolean): CommandResult {
  const { warnings } = resolveOptions({ configText: readConfigFile(file), configName: file });
  const isValid = !isStrict || warnings.length === 0;
  const found = warnings.length === 0 ? "" : `, ${counted(warnings.length, "warning")}`;
  return {
    exitCode: isValid ? EXIT.ok : EXIT.found,
    output: `${file}: ${isValid ? "valid" : "not valid with --strict"}${found}\n`,
    notices: warningNotices(warnings),
  };
}
