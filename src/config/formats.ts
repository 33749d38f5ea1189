import { parseDuration } from "../base/duration.ts";
import type { Format } from "../base/option.ts";
import { FEATURES } from "../features/registry.ts";
import { FEATURE_NAMES, parseFeature } from "../features/selection.ts";
import { canonicalAddress } from "../model/ip.ts";
import { parseListenAddress, parseNodePortAddresses } from "./addresses.ts";

/** A Node's name is a DNS subdomain (RFC 1123). Surrounding white space is removed, as in kube-proxy. */
const NODE_NAME = /^\s*[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?\s*$/i;

/** IFNAMSIZ is 16 including the terminator; `*` is a wildcard of nft and not allowed. */
const INTERFACE_NAME = /^[a-zA-Z0-9_.-]{0,15}$/;

/** Node.js timers have 31 bits of milliseconds; longer ones fire immediately. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** The kernel's timeouts are seconds in 31 bits. */
const LONGEST_TIMEOUT_MS = (2 ** 31 - 1) * 1_000;

/**
 * A Service's `timeoutSeconds` is at most a day. Source: ValidateService in pkg/apis/core/validation,
 * Kubernetes 1.36
 */
const LONGEST_AFFINITY_MS = 86_400_000;

/** The formats that schemas/kubeproxyconfiguration.schema.json refers to, by name. */
export const FORMATS: Readonly<Record<string, Format>> = {
  "ip-or-empty": {
    check: (text) => text === "" || canonicalAddress(text) !== undefined,
    rule: "must be an IP address, without leading zeros or a zone",
  },
  "listen-address": {
    check: (text) => text === "" || parseListenAddress(text, 1) !== undefined,
    rule: 'must be an IP address with a port up to 65535, such as "0.0.0.0:10256" or "[::]:10256"; port 0 switches it off',
  },
  "node-port-address": {
    check: (text) => parseNodePortAddresses([text]) !== undefined,
    rule: 'must be a CIDR such as "192.0.2.0/24", or one of the words primary, localhost and all',
  },
  feature: {
    check: (text) => parseFeature(text) !== undefined,
    rule: `must be all, none, or one of ${FEATURE_NAMES.join(", ")}, perhaps with a namespace: port-ranges@media`,
  },
  "interface-name": {
    check: (text) => INTERFACE_NAME.test(text),
    rule: "must be at most 15 letters, digits, dots, dashes and underscores",
  },
  "node-name": {
    check: (text) => text === "" || NODE_NAME.test(text),
    rule: "must be the name of a Node: at most 253 letters, digits, dots and dashes",
  },
  "url-or-empty": {
    check: (text) => text === "" || (/^https?:\/\/[^\s/]/.test(text) && URL.canParse(text)),
    rule: 'must be a URL such as "https://192.0.2.1:6443"',
  },
  path: { check: (text) => !text.includes("\0"), rule: "must be a path" },
  "timer-duration": durations(0, LONGEST_TIMER_MS, "from 0s to 596h"),
  "timer-duration-not-zero": durations(1, LONGEST_TIMER_MS, "from 1ms to 596h"),
  "affinity-timeout": durations(1000, LONGEST_AFFINITY_MS, "from 1s to 24h"),
  "kernel-timeout": durations(0, LONGEST_TIMEOUT_MS, "not negative"),
  ...Object.assign({}, ...FEATURES.map(({ formats }) => formats)),
};

/** The checks of {@link FORMATS} by name, as a validator calls them. */
export const FORMAT_CHECKS: Readonly<Record<string, Format["check"]>> = Object.fromEntries(
  Object.entries(FORMATS).map(([name, { check }]) => [name, check]),
);

/** The format of durations within bounds, milliseconds. @param bounds as text */
function durations(least: number, most: number, bounds: string): Format {
  const check = (text: string) => {
    const duration = parseDuration(text);
    return duration !== undefined && duration >= least && duration <= most;
  };
  return { check, rule: `must be a duration such as "30s" or "1h30m", ${bounds}` };
}
