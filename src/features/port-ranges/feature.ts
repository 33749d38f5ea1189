import { PORT_RANGES_ANNOTATION } from "../../model/features.ts";
import { type Feature, fieldsOf } from "../seam/feature.ts";
import { portsWithRanges } from "./parse.ts";

export const portRanges: Feature = {
  name: "port-ranges",
  former: { path: "nftProxy.portRanges", flag: "port-ranges", value: "off" },
  annotations: [
    {
      name: PORT_RANGES_ANNOTATION,
      values: "such as `rtp=10000-10999,sip=5070-5079`",
      absent: "no ranges",
      cost: "one element for each range and address; `--max-port-ranges`",
      event: "InvalidPortRanges",
      parse: (text, { ports, invalidPorts }) => fieldsOf(portsWithRanges(text, ports, invalidPorts)),
      consequence: "no range is served",
    },
  ],
};
