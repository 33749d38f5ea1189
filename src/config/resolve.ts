import type { Document } from "../base/option.ts";
import { quoted } from "../base/text.ts";
import { toOptions, valueAt, withDefaults, withValueAt } from "./configuration.ts";
import { readConfiguration } from "./configuration-file.ts";
import { CONFIG_FLAGS, type GivenFlag } from "./flags.ts";
import { type InvalidValue, ignoredWarning, refuseInvalid } from "./invalid-value.ts";
import { isModeField, modeWarnings } from "./other-modes.ts";
import { dependencyViolations, schemaViolations } from "./validate.ts";

/** The sources of options. */
export interface ConfigSources {
  /** The result of `readFlags`. */
  readonly flags?: readonly GivenFlag[];
  /** The content of the file of `--config`, if there is one. */
  readonly configText?: string;
  /** The name of that file in messages: its path. */
  readonly configName?: string;
}

/**
 * Computes the options from flags, a configuration file and the defaults. If there is a file, flags of
 * kube-proxy only count if they also override the file in kube-proxy; each of the others causes a warning.
 * @returns valid options, and warnings about given values without effect
 * @throws AppError BAD_CONFIG for invalid values in the file, BAD_ARGUMENT for invalid flags; both list every
 * one
 */
export function resolveOptions({
  flags = [],
  configText,
  configName = "the configuration",
}: ConfigSources = {}) {
  const file = configText === undefined ? undefined : readConfiguration(configText, configName);
  const used = flags.filter((given) => isUsed(given, file !== undefined));
  const modeFlags = withFlags({}, used.filter(decidesDefaults));
  const defaulted = withDefaults(file?.given ?? modeFlags);
  const configuration = withFlags(defaulted, used);
  refuseInvalid("BAD_ARGUMENT", "the command line", invalidFlags(used, configuration));
  return {
    options: toOptions(configuration),
    warnings: [
      ...(file?.warnings ?? modeWarnings(modeFlags, "flags")),
      ...flags.flatMap((given) => flagWarnings(given, file !== undefined)),
    ],
  };
}

/** Whether a flag belongs to kube-proxy's other modes, or determines their effect. */
function decidesDefaults({ flag: { target } }: GivenFlag): boolean {
  return target.kind === "field" && isModeField(target.path);
}

/** In kube-proxy, an empty text is the same as a flag that was not given. */
function isUsed({ flag: { target, type, takesEmpty }, value }: GivenFlag, hasFile: boolean): boolean {
  const isEmpty = type === "string" && value === "" && !takesEmpty;
  return target.kind === "field" && (target.wins === "flag" || !hasFile) && !isEmpty;
}

function withFlags(configuration: Document, flags: readonly GivenFlag[]): Document {
  return flags.reduce((changed, { flag: { target, combine }, value }) => {
    if (target.kind !== "field") return changed;
    const next = combine === undefined ? value : combine(valueAt(changed, target.path), value);
    return withValueAt(changed, target.path, next);
  }, configuration);
}

const GATES_RULE = 'must be a list of gates with true or false, such as "AllowServiceExternalIPs=false"';

function invalidFlags(flags: readonly GivenFlag[], configuration: Document): InvalidValue[] {
  const refused = flags.flatMap(({ flag, value }) => {
    const isMalformed = flag.type === "feature-gates" && typeof value === "string";
    const reason = isMalformed ? `${GATES_RULE}, not ${quoted(value)}` : flag.refuse?.(String(value));
    return reason === undefined ? [] : [{ subject: `--${flag.name}`, reason }];
  });
  const bySchema = schemaViolations(configuration);
  const others = [...bySchema, ...dependencyViolations(configuration, bySchema)]
    .map(({ subject, reason }) => ({ subject: flagOf(subject), reason }))
    .filter(({ subject }) => !refused.some((invalid) => invalid.subject === subject));
  const all = [...refused, ...others];
  // The file was validated before. So a field without a flag can be invalid only through its default, which
  // comes from another invalid flag.
  const ofFlags = all.filter(({ subject }) => subject.startsWith("--"));
  return ofFlags.length > 0 ? ofFlags : all;
}

/** Returns the flag that sets a field, or the field itself if there is none. */
function flagOf(subject: string): string {
  const path = subject.replace(/\[\d+\]$/, "");
  const flag = CONFIG_FLAGS.find(({ target }) => target.kind === "field" && target.path === path);
  return flag === undefined ? subject : `--${flag.name}`;
}

function flagWarnings({ flag, value }: GivenFlag, hasFile: boolean): string[] {
  const { name, target, successor, ifEmpty } = flag;
  const subject = `--${name}`;
  if (target.kind === "ignored") return [ignoredWarning(subject, target.reason)];
  if (target.kind !== "field") return [];
  if (hasFile && target.wins === "file")
    return [ignoredWarning(subject, "the configuration file overrides it")];
  if (successor !== undefined) return [`${subject} is deprecated: use --${successor}`];
  return value === "" && ifEmpty !== undefined ? [`${subject} ${ifEmpty}`] : [];
}
