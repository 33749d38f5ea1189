import {
  DRAIN_TIMEOUT_ANNOTATION,
  ON_REMOVED_ANNOTATION,
  parseDrainTimeout,
  parseOnRemoved,
} from "../../model/connection-life.ts";
import { type Feature, fieldsOf } from "../seam/feature.ts";

export const connectionLife: Feature = {
  name: "connection-life",
  annotations: [
    {
      name: ON_REMOVED_ANNOTATION,
      event: "InvalidConnectionLife",
      parse: (text) => fieldsOf(parseOnRemoved(text)),
    },
    {
      name: DRAIN_TIMEOUT_ANNOTATION,
      event: "InvalidConnectionLife",
      parse: (text) => fieldsOf(parseDrainTimeout(text)),
    },
  ],
};
