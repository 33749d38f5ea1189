import { expect, test } from "vitest";
import type { PortRangeAddresses } from "../../../src/features/port-ranges/rules.ts";
import { unservedRanges } from "../../../src/features/port-ranges/unserved.ts";
import type { FeatureEvent } from "../../../src/features/seam/daemon-part.ts";
import { cacheOf, named, port, service, testNodeContext } from "../../support/build.ts";

test("port ranges that this node does not serve are reported once for each Service, mode and version", () => {
  const cache = cacheOf({});
  const notes: (FeatureEvent & { readonly service: string })[] = [];
  let readings = 0;
  const running = unservedRanges({
    cache,
    warn: (service, event) => void notes.push({ ...event, service }),
    localAddresses: () => {
      readings += 1;
      return ["192.0.2.2", "fd00:c0::2"];
    },
  });
  const sync = (portRanges: PortRangeAddresses, externalIPs?: readonly string[]) => {
    if (externalIPs !== undefined) {
      const ports = [port(80, { ranges: [{ first: 8000, last: 8999 }] })];
      cache.putService(service({ clusterIPs: ["10.96.0.10", "fd00:10:96::10"], externalIPs, ports }));
    }
    running.synced?.({
      rendered: new Set([named("web")]),
      nodeContext: testNodeContext({ settings: { portRanges } }),
    } as never);
    return notes
      .splice(0)
      .map(({ service, reason, note, clusterKey }) => `${service} ${reason} ${clusterKey}: ${note}`);
  };
  const local =
    "default/web PortRangesNotServed local: node node-1, and possibly others, does not serve nft-proxy.io/port-ranges at its own address";
  expect(sync("virtual", ["203.0.113.7"])).toEqual([]);
  expect(sync("virtual", ["203.0.113.7", "192.0.2.2"])).toEqual([`${local} 192.0.2.2: see --port-ranges`]);
  expect(sync("virtual")).toEqual([]);
  expect(sync("all")).toEqual([]);
  expect(readings).toBe(2);
  expect(sync("virtual", ["192.0.2.2", "fd00:c0::2"])).toEqual([
    `${local} 192.0.2.2 and fd00:c0::2: see --port-ranges`,
  ]);
  cache.putService(service({ externalIPs: ["192.0.2.2"] }));
  expect(sync("virtual")).toEqual([]);
});
