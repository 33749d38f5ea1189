import { listTextOf } from "../../base/text.ts";
import { PASSIVE_HEALTH_ANNOTATION, parsePassiveHealthCheck } from "../../model/passive-health.ts";
import type { AnnotatedService, Feature, Parsed } from "../seam/feature.ts";

export const passiveHealthChecks: Feature = {
  name: "passive-health-checks",
  former: { path: "nftProxy.passiveHealthCheck", flag: "passive-health-check", value: "never" },
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
};

/** The annotation has no effect on a Service without a TCP port. */
function parse(text: string, { ports, warn }: AnnotatedService): Parsed {
  const parsed = parsePassiveHealthCheck(text);
  if ("reason" in parsed) return parsed;
  const others = ports.filter(({ protocol }) => protocol !== "tcp");
  if (parsed.setting !== "off" && others.length > 0) {
    if (others.length === ports.length)
      return { reason: "is for TCP, and no port of the Service has this protocol" };
    const names = listTextOf(others, ({ name, port, protocol }) => `${name || port} (${protocol})`);
    warn(`is for TCP: does not watch ${names}`);
  }
  return { fields: { passiveHealthCheck: parsed.setting } };
}
