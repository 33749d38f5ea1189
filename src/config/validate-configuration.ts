import { Ajv, type ErrorObject, type ValidateFunction } from "ajv";
import schema from "../../schemas/kubeproxyconfiguration.schema.json" with { type: "json" };
import type { GivenConfiguration, KubeProxyConfiguration } from "./configuration.ts";
import { parseDuration } from "./duration.ts";
import { FORMATS } from "./formats.ts";
import type { Fault } from "./problem.ts";

let compiled: ValidateFunction<GivenConfiguration> | undefined;

/** Compiled at the first use only: most commands start faster than the schema compiles. */
function validator(): ValidateFunction<GivenConfiguration> {
  if (compiled !== undefined) return compiled;
  const ajv = new Ajv({ allErrors: true, allowUnionTypes: true, verbose: true });
  for (const [name, { check }] of Object.entries(FORMATS)) ajv.addFormat(name, check);
  compiled = ajv.compile<GivenConfiguration>(schema);
  return compiled;
}

/**
 * Checks a document of any shape against the schema.
 *
 * @returns every wrong value with its path; none when `document` is a {@link GivenConfiguration}.
 */
export function schemaFaults(document: unknown): Fault[] {
  const validate = validator();
  if (validate(document)) return [];
  const reasons = new Map<string, string>();
  for (const error of validate.errors ?? []) {
    const subject = subjectOf(error);
    const known = reasons.get(subject);
    reasons.set(subject, known === undefined ? reasonOf(error) : `${known}; ${reasonOf(error)}`);
  }
  return [...reasons].map(([subject, reason]) => ({ subject, reason }));
}

/** Checks what the schema cannot say: fields that depend on each other. */
export function joinedFaults(configuration: KubeProxyConfiguration): Fault[] {
  const { detectLocalMode, detectLocal, nodePortAddresses, nftables } = configuration;
  const faults: Fault[] = [];
  if (detectLocalMode === "BridgeInterface" && detectLocal.bridgeInterface === "") {
    faults.push({ subject: "detectLocal.bridgeInterface", reason: "must be given with the mode BridgeInterface" });
  }
  if (detectLocalMode === "InterfaceNamePrefix" && detectLocal.interfaceNamePrefix === "") {
    faults.push({
      subject: "detectLocal.interfaceNamePrefix",
      reason: "must be given with the mode InterfaceNamePrefix",
    });
  }
  if (nodePortAddresses.length > 1 && nodePortAddresses.includes("primary")) {
    faults.push({ subject: "nodePortAddresses", reason: 'must be either "primary" or CIDRs, not both' });
  }
  return [...faults, ...periodFaults(nftables)];
}

function periodFaults({ syncPeriod, minSyncPeriod }: KubeProxyConfiguration["nftables"]): Fault[] {
  const period = parseDuration(syncPeriod) ?? 0;
  const subject = "nftables.syncPeriod";
  if (period === 0) return [{ subject, reason: "must be greater than 0" }];
  if (period >= (parseDuration(minSyncPeriod) ?? 0)) return [];
  return [{ subject, reason: `is ${syncPeriod}: must not be less than minSyncPeriod, ${minSyncPeriod}` }];
}

/** `/nodePortAddresses/1` as `nodePortAddresses[1]`. */
function subjectOf({ instancePath, keyword, params }: ErrorObject): string {
  const missing = keyword === "required" ? `.${params.missingProperty}` : "";
  const path = instancePath.replace(/\/(\d+)(?=\/|$)/g, "[$1]").replaceAll("/", ".") + missing;
  return path === "" ? "(the document)" : path.slice(1);
}

function reasonOf(error: ErrorObject): string {
  const rule = ruleOf(error);
  return error.keyword === "required" ? rule : `is ${shown(error.data)}: ${rule}`;
}

function ruleOf({ keyword, params, message = "is wrong", parentSchema = {} }: ErrorObject): string {
  switch (keyword) {
    case "required":
      return "must be given";
    case "const":
      return `must be ${JSON.stringify(params.allowedValue)}`;
    case "enum":
      return `must be one of ${listed(params.allowedValues)}`;
    case "format":
      return FORMATS[params.format]?.rule ?? message;
    case "type":
      return `must be ${TYPES[[params.type].flat()[0]] ?? params.type}`;
    case "minimum":
    case "maximum":
      return parentSchema.maximum === undefined
        ? `must be at least ${parentSchema.minimum}`
        : `must be within ${parentSchema.minimum}..${parentSchema.maximum}`;
    default:
      return message;
  }
}

const TYPES: Readonly<Record<string, string>> = {
  array: "a list",
  boolean: "true or false",
  integer: "a whole number",
  number: "a number",
  object: "a section with fields",
  string: "a text",
};

function listed(values: readonly unknown[]): string {
  return values
    .filter((value) => value !== null && value !== "")
    .map((value) => JSON.stringify(value))
    .join(", ");
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 80 ? `${text.slice(0, 80)}...` : text;
}
