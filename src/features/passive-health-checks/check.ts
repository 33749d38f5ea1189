import { formatDuration, parseDuration } from "../../base/duration.ts";
import { parseNamedValues, wholeNumber } from "../../model/named-values.ts";
import type { Service } from "../../model/service.ts";
import type { PortOfService } from "../../model/service-port.ts";
import type { FamilyContext } from "../../ruleset/node-context.ts";

export const FEATURE = "passive-health-checks";

/** The annotation of a Service that makes this node watch whether its endpoints answer. */
export const PASSIVE_HEALTH_ANNOTATION = "nft-proxy.io/passive-health-check";

/** The settings for watching a Service's endpoints. */
export interface PassiveHealthCheck {
  /** New connections without any answer after which an endpoint is asked. */
  readonly failures: number;
  /** Time between two readings of the counters, milliseconds. */
  readonly intervalMs: number;
  /** Time until an ejected endpoint is asked again for the first time, milliseconds. */
  readonly ejectMs: number;
  /** Maximum share of a list that is ejected, in percent. */
  readonly maxEjected: number;
}

/** The setting of a Service, or of the proxy for Services without one. */
export type PassiveHealthSetting = PassiveHealthCheck | "off";

/** What the annotation of a Service asks for. */
export interface OwnCheck {
  readonly check: PassiveHealthSetting;
}

/** The option of the proxy. */
export interface Settings {
  readonly passiveHealthCheck?: PassiveHealthSetting;
}

/** The settings of `on`. */
export const DEFAULT_PASSIVE_HEALTH_CHECK: PassiveHealthCheck = {
  failures: 3,
  intervalMs: 1000,
  ejectMs: 10_000,
  maxEjected: 50,
};

const DEFAULT_LIST = listText(DEFAULT_PASSIVE_HEALTH_CHECK);

const RULE = `must be on, off, or a list such as "${DEFAULT_LIST}" of some of these four`;

/** The valid values; durations in milliseconds. */
const RANGES = {
  failures: { read: wholeNumber, least: 1, most: 1000, limits: "1 to 1000" },
  interval: { read: parseDuration, least: 1000, most: 60_000, limits: "1s to 1m" },
  eject: { read: parseDuration, least: 1000, most: 300_000, limits: "1s to 5m" },
  "max-ejected": { read: percent, least: 1, most: 100, limits: "1% to 100%" },
};

/**
 * Parses a setting: `on`, `off`, or names with values; absent ones have their defaults.
 * @returns the setting, or the reason why it is invalid: the predicate of a sentence
 */
export function parsePassiveHealthCheck(
  text: string,
): { readonly setting: PassiveHealthSetting } | { readonly reason: string } {
  const trimmed = text.trim();
  if (trimmed === "off") return { setting: "off" };
  if (trimmed === "on") return { setting: DEFAULT_PASSIVE_HEALTH_CHECK };
  const parsed = parseNamedValues(trimmed, RULE, RANGES);
  if ("reason" in parsed) return parsed;
  const { values } = parsed;
  return {
    setting: {
      failures: values.failures ?? DEFAULT_PASSIVE_HEALTH_CHECK.failures,
      intervalMs: values.interval ?? DEFAULT_PASSIVE_HEALTH_CHECK.intervalMs,
      ejectMs: values.eject ?? DEFAULT_PASSIVE_HEALTH_CHECK.ejectMs,
      maxEjected: values["max-ejected"] ?? DEFAULT_PASSIVE_HEALTH_CHECK.maxEjected,
    },
  };
}

/** Formats a setting, as {@link parsePassiveHealthCheck} reads it. */
export function passiveHealthText(setting: PassiveHealthSetting): string {
  if (setting === "off") return setting;
  const text = listText(setting);
  return text === DEFAULT_LIST ? "on" : text;
}

function listText({ failures, intervalMs, ejectMs, maxEjected }: PassiveHealthCheck): string {
  const [interval, eject] = [formatDuration(intervalMs), formatDuration(ejectMs)];
  return `failures=${failures},interval=${interval},eject=${eject},max-ejected=${maxEjected}%`;
}

/**
 * The settings for watching a port of a Service; undefined if it is not watched: other protocols have no
 * answer to wait for.
 */
export function checkOf(
  { service, spec }: Pick<PortOfService, "service" | "spec">,
  { settings }: Pick<FamilyContext, "settings">,
): PassiveHealthCheck | undefined {
  if (spec.protocol !== "tcp") return undefined;
  const own = service.features?.[FEATURE] as OwnCheck | undefined;
  const { passiveHealthCheck: byDefault = "off" } = settings as Settings;
  const setting = own?.check ?? byDefault;
  return setting === "off" ? undefined : setting;
}

/** The same Service, not watched even by default. */
export function withoutCheck(service: Service): Service {
  return { ...service, features: { ...service.features, [FEATURE]: { check: "off" } satisfies OwnCheck } };
}

function percent(text: string): number | undefined {
  return text.endsWith("%") ? wholeNumber(text.slice(0, -1)) : undefined;
}
