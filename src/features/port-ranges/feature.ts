import { choice, integer, MOST_32_BITS } from "../../base/option.ts";
import type { Feature } from "../seam/feature.ts";
import { FEATURE, PORT_RANGES_ANNOTATION, parsePortRanges } from "./parse.ts";
import { MOST_RANGES, PORT_RANGE_ADDRESSES, rules } from "./rules.ts";
import { unservedRanges } from "./unserved.ts";
import { atNodeAddress, unserved } from "./words.ts";

export const portRanges: Feature = {
  name: FEATURE,
  former: { path: "nftProxy.portRanges", flag: "port-ranges", value: "off" },
  annotations: [
    {
      name: PORT_RANGES_ANNOTATION,
      values: "such as `rtp=10000-10999,sip=5070-5079`",
      absent: "no ranges",
      cost: "one element for each range and address; `--max-port-ranges`",
      event: "InvalidPortRanges",
      parse: parsePortRanges,
      consequence: "no range is served",
    },
  ],
  options: {
    portRanges: choice({
      path: "nftProxy.portRanges",
      words: PORT_RANGE_ADDRESSES,
      preset: "virtual",
      flag: "Addresses at which port ranges are served: virtual (all but this node's own), or all",
      reload: "now",
    }),
    maxPortRanges: integer({
      path: "nftProxy.maxPortRanges",
      between: [1, MOST_32_BITS],
      preset: MOST_RANGES,
      flag: "Maximum number of port ranges of all Services of one IP family, counted for each address; beyond it, the ranges of the newest Services are not served",
      reload: "now",
    }),
  },
  ruleset: rules,
  words: { atNodeAddress, reason: unserved },
  createDaemonPart: unservedRanges,
};
