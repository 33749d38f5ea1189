import { choice } from "../../base/option.ts";
import type { Settings } from "../../ruleset/node-context.ts";
import type { Feature } from "../seam/feature.ts";
import { createDaemonPart } from "./daemon-part.ts";

const FEATURE = "service-counters";

/** At which elements new connections are counted. A counter takes memory on each CPU. */
export type ServiceCounters = "off" | "services" | "endpoints";

function countersOf(settings: Settings): ServiceCounters {
  return (settings as { readonly serviceCounters?: ServiceCounters }).serviceCounters ?? "off";
}

export const serviceCounters: Feature = {
  name: FEATURE,
  isEnabled: (settings) => countersOf(settings) !== "off",
  options: {
    serviceCounters: choice({
      path: "nftProxy.serviceCounters",
      words: ["off", "services", "endpoints"],
      preset: "off",
      flag: "Count new connections: off, services (per Service port) or endpoints (per endpoint, too)",
    }),
  },
  ruleset: {
    name: FEATURE,
    counted: ({ settings }) => (countersOf(settings) === "endpoints" ? ["lists", "endpoints"] : ["lists"]),
  },
  createDaemonPart,
};
