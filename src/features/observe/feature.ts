import { choice } from "../../base/option.ts";
import type { Feature } from "../seam/feature.ts";
import { accountingSettings, MODES, modeOf } from "./accounting.ts";
import { command } from "./command.ts";
import { ServiceTraffic } from "./service-traffic.ts";

/** Shows who talks to whom: a command, and metrics by Service. */
export const observe: Feature = {
  name: "observe",
  isEnabled: (settings) => modeOf(settings) !== "off",
  options: {
    observe: choice({
      path: "nftProxy.observe",
      words: MODES,
      preset: "off",
      flag: "Metrics of connections by Service: off, connections (with what the kernel counts) or accounting (also makes the kernel count bytes and times: nf_conntrack_acct, nf_conntrack_timestamp)",
    }),
  },
  kernelSettings: accountingSettings,
  createDaemonPart: (host) => new ServiceTraffic(host),
  command,
};
