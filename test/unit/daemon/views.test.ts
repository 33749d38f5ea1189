import { describe, expect, test } from "vitest";
import { UdpServicePorts } from "../../../src/conntrack/udp-service-ports.ts";
import { ServiceHealthCounts } from "../../../src/daemon/health/service-health-counts.ts";
import { cacheOf, DRAINING, endpoint, localEndpoint, named, port, service, slice } from "../../support/build.ts";

describe("ServiceHealthCounts", () => {
  const balanced = { ...service(), healthCheckNodePort: 30123 };

  test("counts distinct ready endpoints of this node, in the first family", () => {
    const cache = cacheOf({
      services: [balanced],
      slices: [
        slice({
          endpoints: [localEndpoint("10.244.1.11"), localEndpoint("10.244.1.12", DRAINING), endpoint("10.244.2.11")],
        }),
        slice({ name: "second", endpoints: [localEndpoint("10.244.1.11"), localEndpoint("10.244.1.13")] }),
        slice({ endpoints: [localEndpoint("fd00:244:1::11")] }),
      ],
    });
    const view = new ServiceHealthCounts(cache);
    expect(view.update([balanced.name])).toBe(true);
    expect(view.services.get(balanced.name)).toEqual({ port: 30123, localEndpoints: 2 });
    expect(view.update([balanced.name]), "nothing changed").toBe(false);
    cache.putSlice(slice({ name: "second", endpoints: [], family: "ip" }));
    expect(view.update([balanced.name])).toBe(true);
    expect(view.services.get(balanced.name)?.localEndpoints).toBe(1);
  });

  test("forgets a Service that went, or lost its port", () => {
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

describe("UdpServicePorts", () => {
  const udp = (name: string, address: string, createdAt: number) =>
    service({ name, createdAt, clusterIPs: [address], ports: [port(53, { protocol: "udp" }), port(53)] });

  test("says whether a Service with a UDP port is among those that changed", () => {
    const cache = cacheOf({ services: [udp("dns", "10.96.0.53", 1), service()] });
    const view = new UdpServicePorts(cache);
    expect(view.update([named("web")])).toBe(false);
    expect(view.update([named("web"), named("dns")])).toBe(true);
    cache.deleteService(named("dns"));
    expect(view.update([named("dns")]), "it had one").toBe(true);
    expect(view.update([named("dns")])).toBe(false);
  });

  test("gives UDP ports alone, the older Service first, with the endpoints of their family", () => {
    const cache = cacheOf({
      services: [udp("young", "10.96.0.53", 9), udp("old", "10.96.0.54", 1)],
      slices: [
        slice({ service: "old", ports: [{ name: "", protocol: "udp", port: 5353 }], endpoints: ["10.244.2.11"] }),
        slice({ service: "old", ports: [{ name: "", protocol: "udp", port: 5353 }], endpoints: ["fd00:244:2::11"] }),
      ],
    });
    const view = new UdpServicePorts(cache);
    view.update([named("young"), named("old")]);
    expect(view.ports().map(({ port: { name }, endpoints }) => [name, endpoints.map(({ target }) => target)])).toEqual([
      ["default/old:/udp", ["10.244.2.11 . 5353"]],
      ["default/young:/udp", []],
    ]);
  });
});
