import { UdpFrontends } from "../../src/conntrack/udp-frontends.ts";
import type { PortRangeAddresses } from "../../src/features/port-ranges/rules.ts";
import type { FlowPlace } from "../../src/kernel/conntrack.ts";
import type { Endpoint } from "../../src/model/endpoint.ts";
import type { ServicePortKey } from "../../src/model/ids.ts";
import { Renderer } from "../../src/ruleset/renderer.ts";
import { cacheOf, type Objects, port, service, slice, slicePort, testNodeContext } from "./build.ts";

/** The desired rules of a node, and its UDP frontends. */
export class UdpNode {
  readonly cache = cacheOf({});
  /** The service ports that get no rules, and the targets that have terminated for too long. */
  readonly quarantined = new Set<ServicePortKey>();
  readonly drained = new Set<string>();
  #renderer = new Renderer(this.cache, testNodeContext());
  readonly frontends = new UdpFrontends({
    cache: this.cache,
    state: () => this.#renderer.state,
    ended:
      () =>
      (_, { target }: Endpoint) =>
        this.drained.has(target),
  });

  /**
   * Replaces all objects, as a sync does that others follow.
   * @returns the places whose flows may be stale
   */
  sync({ services = [], slices = [] }: Objects): readonly FlowPlace[] {
    for (const name of this.cache.serviceNames()) this.cache.deleteService(name);
    for (const one of this.cache.allSlices()) this.cache.deleteSlice(one);
    for (const one of services) this.cache.putService(one);
    for (const one of slices) this.cache.putSlice(one);
    const dirty = this.cache.takeDirty();
    this.#renderer.update(dirty, this.quarantined);
    return this.frontends.update(dirty);
  }

  /** Renders all with another option. */
  setPortRanges(portRanges: PortRangeAddresses): void {
    const names = this.cache.serviceNames();
    this.#renderer = new Renderer(this.cache, testNodeContext({ settings: { portRanges } }));
    this.#renderer.update(names, this.quarantined);
    this.frontends.update(names);
  }
}

/** Returns a Service with UDP port 53 and endpoints at port 5300. */
export function dns(clusterIP: string, ...endpoints: readonly string[]): Objects {
  const name = `dns-${clusterIP.replaceAll(/[.:]/g, "-")}`;
  return {
    services: [service({ name, clusterIPs: [clusterIP], ports: [port(53, { protocol: "udp" })] })],
    slices: [slice({ service: name, ports: [slicePort(5300, { protocol: "udp" })], endpoints })],
  };
}
