import { integer, MOST_32_BITS } from "../../base/option.ts";
import type { Feature } from "../seam/feature.ts";
import { RefusalPoller } from "./refusal-poller.ts";
import { newRefusals, readEntries, readRefusals } from "./refused-set.ts";
import { FEATURE, rules, sizeOf } from "./rules.ts";

export const refusalRecord: Feature = {
  name: FEATURE,
  isEnabled: (settings) => sizeOf(settings) > 0,
  options: {
    refusalLogSize: integer({
      path: "nftProxy.refusalLogSize",
      between: [0, MOST_32_BITS],
      preset: 65_536,
      flag: "Maximum number of refused and dropped connections, by client and frontend, to remember per IP family; 0 for none",
    }),
  },
  ruleset: rules,
  createDaemonPart: (host) =>
    new RefusalPoller(host, async () => {
      const families = host.nodeContext().map(({ family }) => family);
      return (await readEntries(host.tables, families)) ?? [];
    }),
  refusals: { read: readRefusals, since: newRefusals, sizeOf },
};
