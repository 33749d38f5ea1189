import { PORT_RANGES_ANNOTATION } from "../../model/features.ts";
import { type Feature, fieldsOf } from "../seam/feature.ts";
import { portsWithRanges } from "./parse.ts";

export const portRanges: Feature = {
  name: "port-ranges",
  annotations: [
    {
      name: PORT_RANGES_ANNOTATION,
      event: "InvalidPortRanges",
      parse: (text, { ports, invalidPorts }) => fieldsOf(portsWithRanges(text, ports, invalidPorts)),
      consequence: "no range is served",
    },
  ],
};
