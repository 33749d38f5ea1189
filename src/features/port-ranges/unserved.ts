import { listText } from "../../base/text.ts";
import type { ServiceName } from "../../model/ids.ts";
import { addressesOf, type Service } from "../../model/service.ts";
import type { DaemonPart, FeatureHost, FinishedSync } from "../seam/daemon-part.ts";
import { hasPortRanges, PORT_RANGES_ANNOTATION } from "./parse.ts";
import { areVirtual } from "./rules.ts";

/**
 * Warns of Services with port ranges that this node does not serve, because an address is the node's own.
 * Once for each version of a Service, while the option stays. The first node reports it.
 */
export function unservedRanges(
  host: Pick<FeatureHost, "cache" | "warn" | "localAddresses">,
): Pick<DaemonPart, "synced"> {
  const { cache } = host;
  const judged = new Map<ServiceName, Service>();
  const warnOf = (service: Service, local: ReadonlySet<string>) => {
    const own = addressesOf(service).filter((address) => local.has(address));
    if (own.length === 0) return;
    const note = `node ${cache.node.name}, and possibly others, does not serve ${PORT_RANGES_ANNOTATION} at its own address ${listText(own)}: see --port-ranges`;
    host.warn(service.name, { reason: "PortRangesNotServed", action: "Sync", note, clusterKey: "local" });
  };
  return {
    synced: ({ rendered, nodeContext: [context] }: FinishedSync): void => {
      const areUnserved = context !== undefined && areVirtual(context);
      let local: ReadonlySet<string> | undefined;
      for (const name of rendered) {
        const service = cache.service(name);
        if (!areUnserved || service === undefined || !hasPortRanges(service)) judged.delete(name);
        else if (judged.get(name) !== service) {
          judged.set(name, service);
          local ??= new Set(host.localAddresses());
          warnOf(service, local);
        }
      }
    },
  };
}
