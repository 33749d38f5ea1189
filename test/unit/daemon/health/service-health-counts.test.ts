import { describe, expect, test } from "vitest";
import { ServiceHealthCounts } from "../../../../src/daemon/health/service-health-counts.ts";
import { cacheOf, DRAINING, endpoint, localEndpoint, named, service, slice } from "../../../support/build.ts";

describe("ServiceHealthCounts", () => {
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
    const view = new ServiceHealthCounts(cache);
    expect(view.update([balanced.name])).toBe(true);
    expect(view.services.get(balanced.name)).toEqual({ port: 30123, localEndpoints: { ip: 2 } });
    expect(view.update([balanced.name]), "nothing changed").toBe(false);
    cache.putSlice(slice({ name: "second", endpoints: [], family: "ip" }));
    expect(view.update([balanced.name])).toBe(true);
    expect(view.services.get(balanced.name)?.localEndpoints).toEqual({ ip: 1 });
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
    const counts = new ServiceHealthCounts(cache);
    counts.update([dual.name, single.name]);
    expect(counts.services.get(dual.name)?.localEndpoints).toEqual({ ip: 2, ip6: 1 });
    expect(counts.services.get(single.name)?.localEndpoints).toEqual({ ip: 0 });
  });

  test("drops a Service that was deleted or lost its health check node port", () => {
    const cache = cacheOf({ services: [balanced] });
    const view = new ServiceHealthCounts(cache);
    view.update([balanced.name]);
    cache.putService(service());
    expect([view.update([balanced.name]), view.services.size]).toEqual([true, 0]);
    cache.putService(balanced);
    view.update([balanced.name]);
    cache.deleteService(balanced.name);
    expect([view.update([balanced.name]), view.services.size]).toEqual([true, 0]);
    expect(view.update([named("never")])).toBe(false);
  });
});
