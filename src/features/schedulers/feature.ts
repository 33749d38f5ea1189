import { alternatives, quoted } from "../../base/text.ts";
import {
  parseScheduler,
  SCHEDULER_ANNOTATION,
  SCHEDULERS,
  WEIGHT_ANNOTATION,
} from "../../model/scheduler.ts";
import type { Feature, Parsed } from "../seam/feature.ts";

export const schedulers: Feature = {
  name: "schedulers",
  annotations: [
    {
      name: SCHEDULER_ANNOTATION,
      values: "`random`, `round-robin`, `source-hash`, `flow-hash`",
      absent: "as `--scheduler`",
      cost: "the hash schedulers: 251 to 65,521 elements for each port",
      event: "UnknownScheduler",
      parse,
      consequence: "random is used",
      // Regardless of the proxy's default.
      otherwise: { scheduler: "random" },
    },
  ],
  sliceAnnotations: [
    {
      name: WEIGHT_ANNOTATION,
      values: "`0` to `100`",
      absent: "`1`",
      cost: "251 to 65,521 elements for each port of the Service",
    },
  ],
};

function parse(text: string): Parsed {
  const scheduler = parseScheduler(text);
  if (scheduler !== undefined) return { fields: { scheduler } };
  return { reason: `must be ${alternatives(SCHEDULERS)}, not ${quoted(text)}` };
}
