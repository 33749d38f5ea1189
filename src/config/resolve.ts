import type { KubeProxyConfiguration } from "./configuration.ts";
import { withDefaults } from "./defaults.ts";
import { type ConfigDiagnostic, type ConfigWarning, ignoredWarning, throwFaults } from "./diagnostic.ts";
import { withValueAt } from "./field-path.ts";
import { FLAGS, type GivenFlag } from "./flags.ts";
import { readConfiguration } from "./kube-proxy-configuration.ts";
import type { ProxyOptions } from "./options.ts";
import { toOptions } from "./to-options.ts";
import { joinedFaults, schemaFaults } from "./validate-configuration.ts";

/** Where options come from. */
export interface ConfigSources {
  /** From `readFlags`. */
  readonly flags?: readonly GivenFlag[];
  /** What the file of `--config` holds, if there is one. */
  readonly configText?: string;
  /** What to call it in messages: its path. */
  readonly configName?: string;
}

/** Options that can be used, and what was given in vain. */
export interface ResolvedOptions {
  readonly options: ProxyOptions;
  readonly warnings: readonly ConfigWarning[];
}

/**
 * Makes the options of flags and a configuration file, or of neither: then they are the defaults. With a file, flags
 * count only where kube-proxy lets them win, or are ours; each other one is warned about.
 *
 * @throws AppError BAD_CONFIG for the file and BAD_ARGUMENT for the flags, with all that is wrong.
 */
export function resolveOptions({
  flags = [],
  configText,
  configName = "the configuration",
}: ConfigSources = {}): ResolvedOptions {
  const file = configText === undefined ? undefined : readConfiguration(configText, configName);
  const defaulted = withDefaults(file?.given ?? {});
  if (file !== undefined) throwFaults("BAD_CONFIG", configName, joinedFaults(defaulted));
  const used = flags.filter((given) => isUsed(given, file !== undefined));
  const configuration = withFlags(defaulted, used);
  throwFaults("BAD_ARGUMENT", "the command line", flagFaults(used, configuration));
  return {
    options: toOptions(configuration),
    warnings: [...(file?.warnings ?? []), ...flags.flatMap((given) => flagWarnings(given, file !== undefined))],
  };
}

/** kube-proxy takes an empty text for a flag that was not given. */
function isUsed({ flag: { target, type }, value }: GivenFlag, hasFile: boolean): boolean {
  const isEmpty = type === "string" && value === "";
  return target.kind === "field" && (target.wins === "flag" || !hasFile) && !isEmpty;
}

function withFlags(configuration: KubeProxyConfiguration, flags: readonly GivenFlag[]): KubeProxyConfiguration {
  return flags.reduce((changed, { flag: { target }, value }) => {
    return target.kind === "field" ? withValueAt(changed, target.path, value) : changed;
  }, configuration);
}

function flagFaults(flags: readonly GivenFlag[], configuration: KubeProxyConfiguration): ConfigDiagnostic[] {
  const refused = flags.flatMap(({ flag, value }) => {
    const reason = flag.refuse?.(String(value));
    return reason === undefined ? [] : [{ subject: `--${flag.name}`, reason }];
  });
  const bySchema = schemaFaults(configuration);
  const others = (bySchema.length > 0 ? bySchema : joinedFaults(configuration))
    .map(({ subject, reason }) => ({ subject: flagOf(subject), reason }))
    .filter(({ subject }) => !refused.some((fault) => fault.subject === subject));
  return [...refused, ...others];
}

/** The file was checked on its own, so what is wrong now is a flag's doing. */
function flagOf(subject: string): string {
  const path = subject.replace(/\[\d+\]$/, "");
  const flag = FLAGS.find(({ target }) => target.kind === "field" && target.path === path);
  return flag === undefined ? subject : `--${flag.name}`;
}

function flagWarnings({ flag: { name, target } }: GivenFlag, hasFile: boolean): ConfigWarning[] {
  if (target.kind === "ignored") return [ignoredWarning(`--${name}`, target.reason)];
  if (target.kind !== "field" || target.wins === "flag" || !hasFile) return [];
  return [ignoredWarning(`--${name}`, "the configuration file decides it")];
}
