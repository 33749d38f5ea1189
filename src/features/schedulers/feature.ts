import { alternatives, quoted } from "../../base/text.ts";
import {
  DEFAULT_WEIGHT,
  MOST_WEIGHT,
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
      parse: parseWeight,
      consequence: `${DEFAULT_WEIGHT} is used`,
    },
  ],
};

function parseWeight(text: string): { readonly weight: number } | { readonly reason: string } {
  const weight = /^\d{1,3}$/.test(text) ? Number(text) : Number.POSITIVE_INFINITY;
  if (weight <= MOST_WEIGHT) return { weight };
  return { reason: `must be a number from 0 to ${MOST_WEIGHT}, not ${quoted(text)}` };
}

function parse(text: string): Parsed {
  const scheduler = parseScheduler(text);
  if (scheduler !== undefined) return { fields: { scheduler } };
  return { reason: `must be ${alternatives(SCHEDULERS)}, not ${quoted(text)}` };
}
