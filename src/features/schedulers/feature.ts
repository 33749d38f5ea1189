import { choice } from "../../base/option.ts";
import type { Feature } from "../seam/feature.ts";
import { IPVS_FIELDS, ipvsPart, presetScheduler } from "./ipvs.ts";
import { rules } from "./rules.ts";
import {
  defaultScheduler,
  FEATURE,
  parseScheduler,
  parseWeight,
  SCHEDULER_ANNOTATION,
  SCHEDULERS,
  WEIGHT_ANNOTATION,
} from "./scheduler.ts";
import { words } from "./words.ts";

const scheduler = choice({
  path: "nftProxy.scheduler",
  words: SCHEDULERS,
  preset: presetScheduler,
  flag: "How Services without the annotation nft-proxy.io/scheduler choose endpoints: random, round-robin, source-hash or flow-hash",
  reload: "now",
});

export const schedulers: Feature = {
  name: FEATURE,
  isEnabled: (settings) => defaultScheduler({ settings }) !== "random",
  annotations: [
    {
      name: SCHEDULER_ANNOTATION,
      values: "`random`, `round-robin`, `source-hash`, `flow-hash`",
      absent: "as `--scheduler`",
      cost: "the hash schedulers: 251 to 65,521 elements for each port",
      event: "UnknownScheduler",
      parse: parseScheduler,
    },
  ],
  sliceAnnotations: [
    {
      name: WEIGHT_ANNOTATION,
      values: "`0` to `100`",
      absent: "`1`",
      cost: "251 to 65,521 elements for each port of the Service",
      parse: parseWeight,
    },
  ],
  options: { scheduler: { ...scheduler, fields: [...scheduler.fields, ...IPVS_FIELDS] } },
  ruleset: rules,
  ipvs: ipvsPart,
  words,
};
