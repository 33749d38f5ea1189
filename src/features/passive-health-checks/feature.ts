import { durationText } from "../../base/duration.ts";
import { optionOf, valid } from "../../base/option.ts";
import { counted, listTextOf } from "../../base/text.ts";
import type { ServicePort } from "../../model/service-port.ts";
import type { AnnotatedObject, Feature, NotedConnection, Parsed } from "../seam/feature.ts";
import {
  checkOf,
  FEATURE,
  type OwnCheck,
  PASSIVE_HEALTH_ANNOTATION,
  type PassiveHealthSetting,
  parsePassiveHealthCheck,
  passiveHealthText,
  type Settings,
} from "./check.ts";
import { PassiveHealth } from "./passive-health.ts";
import { rules } from "./rules.ts";

const FORMAT = "passive-health-check";

/** How to watch whether endpoints answer, for Services without the annotation. */
const passiveHealthCheck = optionOf<string, PassiveHealthSetting>(
  {
    path: "nftProxy.passiveHealthCheck",
    preset: "off",
    flag: 'Watch whether TCP endpoints answer, for Services without the annotation nft-proxy.io/passive-health-check: off, on, or a list such as "failures=3,interval=1s,eject=10s,max-ejected=50%"',
  },
  {
    schema: { type: "string", format: FORMAT },
    flagType: "string",
    parse: (given) => {
      const parsed = parsePassiveHealthCheck(given);
      return valid("setting" in parsed ? parsed.setting : undefined);
    },
    print: passiveHealthText,
  },
);

export const passiveHealthChecks: Feature = {
  name: FEATURE,
  former: { path: "nftProxy.passiveHealthCheck", flag: "passive-health-check", value: "never" },
  isEnabled: (settings) => ((settings as Settings).passiveHealthCheck ?? "off") !== "off",
  annotations: [
    {
      name: PASSIVE_HEALTH_ANNOTATION,
      values: "`on`, `off`, or such as `failures=3,interval=1s,eject=10s,max-ejected=50%`",
      absent: "as `--passive-health-check`",
      cost: "three counters for each endpoint, read each second; 10,000 endpoints of a family",
      event: "InvalidPassiveHealthCheck",
      parse,
    },
  ],
  options: { passiveHealthCheck },
  formats: {
    [FORMAT]: {
      check: (text) => "setting" in parsePassiveHealthCheck(text),
      rule: 'must be off, on, or a list such as "failures=3,interval=1s,eject=10s,max-ejected=50%"',
    },
  },
  ruleset: rules,
  createDaemonPart: (host) => new PassiveHealth(host),
  words: { note },
};

/** The annotation has no effect on a Service without a TCP port. */
function parse(text: string, { ports, warn }: AnnotatedObject): Parsed {
  const parsed = parsePassiveHealthCheck(text);
  if ("reason" in parsed) return parsed;
  const others = ports.filter(({ protocol }) => protocol !== "tcp");
  if (parsed.setting !== "off" && others.length > 0) {
    if (others.length === ports.length)
      return { reason: "is for TCP, and no port of the Service has this protocol" };
    const names = listTextOf(others, ({ name, port, protocol }) => `${name || port} (${protocol})`);
    warn(`is for TCP: does not watch ${names}`);
  }
  return { value: { check: parsed.setting } satisfies OwnCheck };
}

/** How the node treats endpoints of a port that do not answer. */
function note(port: ServicePort, { context, hasElements }: NotedConnection): string | undefined {
  const check = hasElements ? checkOf(port, context) : undefined;
  if (check === undefined) return undefined;
  const [eject, share] = [durationText(check.ejectMs / 1000), `${check.maxEjected} %`];
  return `an endpoint that answers none of ${counted(check.failures, "new connection")} in a row is tried, and ejected for ${eject} at first unless it answers; at most ${share} of the endpoints are ejected`;
}
