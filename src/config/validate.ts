import type { ErrorObject, ValidateFunction } from "ajv";
import { parseDuration } from "../base/duration.ts";
import { withHint } from "../base/nearest.ts";
import type { Document } from "../base/option.ts";
import { describeSchemaError, joinPath } from "../base/schema-error.ts";
import { quoted } from "../base/text.ts";
import { parseClusterCIDRs } from "./addresses.ts";
import { valueAt } from "./configuration.ts";
import { compileConfigurationValidator } from "./configuration.validator.ts";
import { FORMATS } from "./formats.ts";
import { formerFieldHint } from "./former-settings.ts";
import type { InvalidValue } from "./invalid-value.ts";

let compiled: ValidateFunction<Document> | undefined;

/**
 * Validates a document against the schema, which accepts unknown fields: see `unknownOwnFields`.
 * @returns every invalid value with its path; none when it is a {@link Document} that can be read
 */
export function schemaViolations(document: unknown): InvalidValue[] {
  compiled ??= compileConfigurationValidator();
  const validate = compiled;
  if (validate(document)) return [];
  return (validate.errors ?? []).map(invalidValueOf);
}

/**
 * Validates fields of a complete configuration that depend on each other, which the schema cannot express.
 * @param invalid the values that violate the schema: fields that depend on these are not checked
 */
export function dependencyViolations(
  configuration: Document,
  invalid: readonly InvalidValue[] = [],
): InvalidValue[] {
  const textAt = (path: string) => String(valueAt(configuration, path));
  const isKnown = (...paths: string[]) =>
    !invalid.some(({ subject }) => paths.some((path) => `${path}.`.startsWith(`${subject}.`)));
  return [
    ...(isKnown("detectLocalMode", "clusterCIDR", ...Object.values(NEEDED_NAMES))
      ? detectLocalViolations(textAt)
      : []),
    ...(isKnown("nftables.syncPeriod", "nftables.minSyncPeriod") ? periodViolations(textAt) : []),
  ];
}

type TextAt = (path: string) => string;

function detectLocalViolations(textAt: TextAt): InvalidValue[] {
  const mode = textAt("detectLocalMode");
  const needed = NEEDED_NAMES[mode];
  if (needed !== undefined && textAt(needed) === "") {
    return [{ subject: needed, reason: `must be given with the mode ${mode}` }];
  }
  const cidrs = textAt("clusterCIDR");
  if (mode !== "ClusterCIDR" || parseClusterCIDRs(cidrs) !== undefined) return [];
  const rule = 'must be one CIDR, or one of each family, such as "10.244.0.0/16,fd00:244::/64"';
  return [{ subject: "clusterCIDR", reason: `${rule}, not ${quoted(cidrs)}` }];
}

/** The fields that modes of `detectLocalMode` need. */
const NEEDED_NAMES: Readonly<Record<string, string>> = {
  BridgeInterface: "detectLocal.bridgeInterface",
  InterfaceNamePrefix: "detectLocal.interfaceNamePrefix",
};

function periodViolations(textAt: TextAt): InvalidValue[] {
  const subject = "nftables.syncPeriod";
  const [syncPeriod, minSyncPeriod] = [textAt(subject), textAt("nftables.minSyncPeriod")];
  const period = parseDuration(syncPeriod) ?? 0;
  if (period === 0) return [{ subject, reason: "must be greater than 0" }];
  if (period >= (parseDuration(minSyncPeriod) ?? 0)) return [];
  return [
    { subject, reason: `must not be less than minSyncPeriod ${minSyncPeriod}, not ${quoted(syncPeriod)}` },
  ];
}

function invalidValueOf(error: ErrorObject): InvalidValue {
  const { keyword, params, parentSchema } = error;
  const { path, reason } = describeSchemaError(error);
  if (keyword === "required")
    return { subject: joinPath(path, params.missingProperty), reason: "must be given" };
  // A value of another type, such as 30 for "30s", violates the format, too.
  const hint = formerFieldHint(path, error.data);
  const format = keyword === "format" || keyword === "type" ? parentSchema?.format : undefined;
  const rule = FORMATS[format]?.rule;
  const given = rule === undefined ? reason : `${rule}, not ${quoted(error.data)}`;
  return {
    subject: path === "" ? "(the document)" : path,
    reason: withHint(given, hint),
  };
}
