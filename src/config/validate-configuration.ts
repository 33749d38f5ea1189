import type { ErrorObject, ValidateFunction } from "ajv";
import { describeSchemaError, joinPath, quoted } from "../base/schema-error.ts";
import type { GivenConfiguration, KubeProxyConfiguration } from "./configuration.ts";
import { compileConfigurationValidator } from "./configuration.validator.ts";
import type { ConfigDiagnostic } from "./diagnostic.ts";
import { parseDuration } from "./duration.ts";
import { FORMATS } from "./formats.ts";

let compiled: ValidateFunction<GivenConfiguration> | undefined;

/**
 * Checks a document of any shape against the schema.
 *
 * @returns every wrong value with its path; none when `document` is a {@link GivenConfiguration}.
 */
export function schemaFaults(document: unknown): ConfigDiagnostic[] {
  compiled ??= compileConfigurationValidator();
  const validate = compiled;
  if (validate(document)) return [];
  return (validate.errors ?? []).map(faultOf);
}

/** Checks what the schema cannot say: fields that depend on each other. */
export function joinedFaults(configuration: KubeProxyConfiguration): ConfigDiagnostic[] {
  const { detectLocalMode, detectLocal, nftables } = configuration;
  const faults: ConfigDiagnostic[] = [];
  if (detectLocalMode === "BridgeInterface" && detectLocal.bridgeInterface === "") {
    faults.push({ subject: "detectLocal.bridgeInterface", reason: "must be given with the mode BridgeInterface" });
  }
  if (detectLocalMode === "InterfaceNamePrefix" && detectLocal.interfaceNamePrefix === "") {
    faults.push({
      subject: "detectLocal.interfaceNamePrefix",
      reason: "must be given with the mode InterfaceNamePrefix",
    });
  }
  return [...faults, ...periodFaults(nftables)];
}

function periodFaults({ syncPeriod, minSyncPeriod }: KubeProxyConfiguration["nftables"]): ConfigDiagnostic[] {
  const period = parseDuration(syncPeriod) ?? 0;
  const subject = "nftables.syncPeriod";
  if (period === 0) return [{ subject, reason: "must be greater than 0" }];
  if (period >= (parseDuration(minSyncPeriod) ?? 0)) return [];
  return [{ subject, reason: `must not be less than minSyncPeriod ${minSyncPeriod}, not ${quoted(syncPeriod)}` }];
}

function faultOf(error: ErrorObject): ConfigDiagnostic {
  const { keyword, params } = error;
  const { path, reason } = describeSchemaError({ ...error, params: withoutUnset(params) });
  if (keyword === "required") return { subject: joinPath(path, params.missingProperty), reason: "must be given" };
  const rule = keyword === "format" ? FORMATS[params.format]?.rule : undefined;
  return {
    subject: path === "" ? "(the document)" : path,
    reason: rule === undefined ? reason : `${rule}, not ${quoted(error.data)}`,
  };
}

/** Null and "" stand for "not given" throughout; they need not be offered. */
function withoutUnset(params: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const offered = (value: unknown): boolean => value !== null && value !== "" && value !== "null";
  return Object.fromEntries(
    Object.entries(params).map(([key, value]) => [key, Array.isArray(value) ? value.filter(offered) : value]),
  );
}
