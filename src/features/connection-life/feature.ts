import {
  DRAIN_TIMEOUT_ANNOTATION,
  ON_REMOVED_ANNOTATION,
  parseDrainTimeout,
  parseOnRemoved,
} from "../../model/connection-life.ts";
import { type Feature, fieldsOf } from "../seam/feature.ts";

export const connectionLife: Feature = {
  name: "connection-life",
  former: { path: "nftProxy.ignoreServiceResets", flag: "ignore-service-resets" },
  annotations: [
    {
      name: ON_REMOVED_ANNOTATION,
      values: "`keep`, `reset`",
      absent: "as `--reset-vanished`",
      cost: "one element for each endpoint that left, for 15 minutes",
      event: "InvalidConnectionLife",
      parse: (text) => fieldsOf(parseOnRemoved(text)),
    },
    {
      name: DRAIN_TIMEOUT_ANNOTATION,
      values: "`1s` to `1h`",
      absent: "connections end with their endpoint",
      cost: "one element for each endpoint that terminates; 8,192 of a namespace",
      event: "InvalidConnectionLife",
      parse: (text) => fieldsOf(parseDrainTimeout(text)),
    },
  ],
};
