import { describe, expect, test } from "vitest";
import {
  type ServiceHealth,
  serviceHealthOf,
  serviceHealthSubscriber,
} from "../../../../src/daemon/health/service-health.ts";
import {
  cacheOf,
  DRAINING,
  endpoint,
  localEndpoint,
  named,
  service,
  slice,
  testNodeContext,
} from "../../../support/build.ts";
import { syncReport } from "../../../support/sync-report.ts";

describe("a health check node port", () => {
  const balanced = { ...service(), healthCheckNodePort: 30123 };

  test("counts the distinct ready endpoints of this node", () => {
    const cache = cacheOf({
      services: [balanced],
      slices: [
        slice({
          endpoints: [
            localEndpoint("10.244.1.11"),
            localEndpoint("10.244.1.12", DRAINING),
            endpoint("10.244.2.11"),
          ],
        }),
        slice({ name: "second", endpoints: [localEndpoint("10.244.1.11"), localEndpoint("10.244.1.13")] }),
        slice({ endpoints: [localEndpoint("fd00:244:1::11")] }),
      ],
    });
    expect(serviceHealthOf(cache, balanced.name)).toEqual({ port: 30123, localEndpoints: { ip: 2 } });
    cache.putSlice(slice({ name: "second", endpoints: [], family: "ip" }));
    expect(serviceHealthOf(cache, balanced.name)?.localEndpoints).toEqual({ ip: 1 });
  });

  test("counts each family of a Service separately, and no family that the Service does not have", () => {
    const dual = { ...balanced, clusterIPs: { ip: "10.96.0.10", ip6: "fd00:96::10" } };
    const single = { ...service({ name: "single" }), healthCheckNodePort: 30124 };
    const cache = cacheOf({
      services: [dual, single],
      slices: [
        slice({ endpoints: [localEndpoint("10.244.1.11"), localEndpoint("10.244.1.12")] }),
        slice({ endpoints: [localEndpoint("fd00:244:1::11")] }),
        slice({ service: "single", endpoints: [localEndpoint("fd00:244:1::12")] }),
      ],
    });
    expect(serviceHealthOf(cache, dual.name)?.localEndpoints).toEqual({ ip: 2, ip6: 1 });
    expect(serviceHealthOf(cache, single.name)?.localEndpoints).toEqual({ ip: 0 });
  });

  test("is served until its Service is deleted or loses it, and told only of changes", () => {
    const cache = cacheOf({ services: [balanced] });
    const told: (readonly (ServiceHealth | undefined)[])[] = [];
    const subscriber = serviceHealthSubscriber(cache, {
      sync: async (wanted) => {
        told.push([...wanted.values()]);
      },
    });
    const sync = (...names: Parameters<typeof serviceHealthOf>[1][]) => {
      told.length = 0;
      subscriber.synced(syncReport({ rendered: new Set(names), nodeContext: testNodeContext() }));
      return told;
    };
    const served = [[{ port: 30123, localEndpoints: { ip: 0 } }]];
    expect(sync(balanced.name)).toEqual(served);
    expect(sync(balanced.name), "nothing changed").toEqual([]);
    cache.putService(service());
    expect(sync(balanced.name)).toEqual([[]]);
    cache.putService(balanced);
    expect(sync(balanced.name)).toEqual(served);
    cache.deleteService(balanced.name);
    expect(sync(balanced.name)).toEqual([[]]);
    expect(sync(named("never"))).toEqual([]);
  });
});
