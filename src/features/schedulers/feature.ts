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
      event: "UnknownScheduler",
      parse,
      consequence: "random is used",
      // Regardless of the proxy's default.
      otherwise: { scheduler: "random" },
    },
  ],
  sliceAnnotations: [WEIGHT_ANNOTATION],
};

function parse(text: string): Parsed {
  const scheduler = parseScheduler(text);
  if (scheduler !== undefined) return { fields: { scheduler } };
  return { reason: `must be ${alternatives(SCHEDULERS)}, not ${quoted(text)}` };
}
