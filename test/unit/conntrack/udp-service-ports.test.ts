import { describe, expect, test } from "vitest";
import { UdpServicePorts } from "../../../src/conntrack/udp-service-ports.ts";
import { cacheOf, named, port, service, slice } from "../../support/build.ts";

describe("UdpServicePorts", () => {
  const udp = (name: string, address: string, createdAt: number) =>
    service({ name, createdAt, clusterIPs: [address], ports: [port(53, { protocol: "udp" }), port(53)] });

  test("tells whether a Service that changed has, or had, a UDP port", () => {
    const cache = cacheOf({ services: [udp("dns", "10.96.0.53", 1), service()] });
    const view = new UdpServicePorts(cache);
    expect(view.update([named("web")])).toBe(false);
    expect(view.update([named("web"), named("dns")])).toBe(true);
    cache.deleteService(named("dns"));
    expect(view.update([named("dns")]), "it had one").toBe(true);
    expect(view.update([named("dns")])).toBe(false);
  });

  test("gives only UDP ports, the older Service first, with the endpoints of their family", () => {
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
