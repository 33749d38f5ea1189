import type { ErrorObject, ValidateFunction } from "ajv";
import { parseDuration } from "../base/duration.ts";
import { describeSchemaError, joinPath, quoted } from "../base/schema-error.ts";
import { parseClusterCIDRs } from "./cidr-lists.ts";
import type { GivenConfiguration, KubeProxyConfiguration } from "./configuration.ts";
import { compileConfigurationValidator } from "./configuration.validator.ts";
import type { ConfigDiagnostic } from "./diagnostic.ts";
import { FORMATS } from "./flags/formats.ts";

let compiled: ValidateFunction<GivenConfiguration> | undefined;

/**
 * Validates a document against the schema.
 * @returns every invalid value with its path; none when `document` is a {@link GivenConfiguration}
 */
export function schemaDiagnostics(document: unknown): ConfigDiagnostic[] {
  compiled ??= compileConfigurationValidator();
  const validate = compiled;
  if (validate(document)) return [];
  return (validate.errors ?? []).map(diagnosticOf);
}

/** Validates fields that depend on each other, which the schema cannot express. */
export function dependencyDiagnostics(configuration: KubeProxyConfiguration): ConfigDiagnostic[] {
  const { clusterCIDR, detectLocalMode, detectLocal, nftables } = configuration;
  const diagnostics: ConfigDiagnostic[] = [];
  if (detectLocalMode === "ClusterCIDR" && parseClusterCIDRs(clusterCIDR) === undefined) {
    const rule = 'must be one CIDR, or one of each family, such as "10.244.0.0/16,fd00:244::/64"';
    diagnostics.push({ subject: "clusterCIDR", reason: `${rule}, not ${quoted(clusterCIDR)}` });
  }
  if (detectLocalMode === "BridgeInterface" && detectLocal.bridgeInterface === "") {
    diagnostics.push({ subject: "detectLocal.bridgeInterface", reason: "must be given with the mode BridgeInterface" });
  }
  if (detectLocalMode === "InterfaceNamePrefix" && detectLocal.interfaceNamePrefix === "") {
    diagnostics.push({
      subject: "detectLocal.interfaceNamePrefix",
      reason: "must be given with the mode InterfaceNamePrefix",
    });
  }
  return [...diagnostics, ...periodDiagnostics(nftables)];
}

function periodDiagnostics({ syncPeriod, minSyncPeriod }: KubeProxyConfiguration["nftables"]): ConfigDiagnostic[] {
  const period = parseDuration(syncPeriod) ?? 0;
  const subject = "nftables.syncPeriod";
  if (period === 0) return [{ subject, reason: "must be greater than 0" }];
  if (period >= (parseDuration(minSyncPeriod) ?? 0)) return [];
  return [{ subject, reason: `must not be less than minSyncPeriod ${minSyncPeriod}, not ${quoted(syncPeriod)}` }];
}

function diagnosticOf(error: ErrorObject): ConfigDiagnostic {
  const { keyword, params } = error;
  const { path, reason } = describeSchemaError(error);
  if (keyword === "required") return { subject: joinPath(path, params.missingProperty), reason: "must be given" };
  const rule = keyword === "format" ? FORMATS[params.format]?.rule : undefined;
  return {
    subject: path === "" ? "(the document)" : path,
    reason: rule === undefined ? reason : `${rule}, not ${quoted(error.data)}`,
  };
}
