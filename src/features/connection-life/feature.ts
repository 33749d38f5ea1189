import { boolean } from "../../base/option.ts";
import type { Feature } from "../seam/feature.ts";
import {
  DRAIN_TIMEOUT_ANNOTATION,
  ON_REMOVED_ANNOTATION,
  parseDrainTimeout,
  parseOnRemoved,
} from "./life.ts";
import { createDaemonPart } from "./reset-packets.ts";
import { FEATURE, isResetByDefault, rules } from "./rules.ts";
import { createState } from "./state.ts";
import { words } from "./words.ts";

export const connectionLife: Feature = {
  name: FEATURE,
  isEnabled: isResetByDefault,
  former: { path: "nftProxy.ignoreServiceResets", flag: "ignore-service-resets" },
  annotations: [
    {
      name: ON_REMOVED_ANNOTATION,
      values: "`keep`, `reset`",
      absent: "as `--reset-vanished`",
      cost: "one element for each endpoint that left, for 15 minutes",
      event: "InvalidConnectionLife",
      parse: parseOnRemoved,
    },
    {
      name: DRAIN_TIMEOUT_ANNOTATION,
      values: "`1s` to `1h`",
      absent: "connections end with their endpoint",
      cost: "one element for each endpoint that terminates; 8,192 of a namespace",
      event: "InvalidConnectionLife",
      parse: parseDrainTimeout,
    },
  ],
  options: {
    resetVanished: boolean({
      path: "nftProxy.resetVanished",
      preset: false,
      flag: "Answer packets to TCP endpoints that left every EndpointSlice with a reset, instead of silence; the default of the annotation nft-proxy.io/on-endpoint-removed",
    }),
  },
  ruleset: rules,
  createState,
  createDaemonPart,
  words,
};
