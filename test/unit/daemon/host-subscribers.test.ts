import { expect, test } from "vitest";
import { addressSubscriber, staleFlowSubscriber } from "../../../src/conntrack/stale-flow-cleaner.ts";
import { loopbackNodePorts } from "../../../src/daemon/host-subscribers.ts";
import type { LoopbackNodePort } from "../../../src/daemon/loopback/loopback-proxy.ts";
import { EVERYWHERE, type FlowPlace } from "../../../src/kernel/conntrack.ts";
import { Renderer } from "../../../src/ruleset/renderer.ts";
import { cacheOf, endpoint, named, port, service, slice, testNodeContext } from "../../support/build.ts";
import { syncReport } from "../../support/sync-report.ts";
import { UdpNode } from "../../support/udp-node.ts";

test("stale flows are deleted after a change of a UDP Service, and after every full sync", () => {
  const { cache, frontends } = new UdpNode();
  for (const one of [service(), service({ name: "dns", ports: [port(53, { protocol: "udp" })] })])
    cache.putService(one);
  const cleaned: (readonly FlowPlace[])[] = [];
  const clean = async (places: readonly FlowPlace[]) => {
    cleaned.push(places);
  };
  let now = 0;
  const ends = [{ nextAfter: (moment: number) => (moment < 5 ? 5 : Number.POSITIVE_INFINITY) }];
  const subscriber = staleFlowSubscriber(frontends, { clean }, ends, () => now);
  const after = (kind: "partial" | "full", ...rendered: readonly string[]) => {
    subscriber.synced(syncReport({ kind, rendered: new Set(rendered.map(named)) }));
    return cleaned.splice(0);
  };
  expect(after("partial", "web")).toEqual([]);
  expect(after("partial", "web", "dns")).toEqual([[{ family: "ip", address: "10.96.0.10" }]]);
  expect(after("full"), "rules that were missing let flows pass untranslated").toEqual([EVERYWHERE]);
  now = 5;
  expect(after("partial"), "flows to an endpoint that serves end").toEqual([EVERYWHERE]);
  expect(after("partial")).toEqual([]);
});

test("flows to addresses of the node that come or go are looked at", () => {
  const cleaned: (readonly FlowPlace[])[] = [];
  const read = addressSubscriber({
    clean: async (places) => {
      cleaned.push(places);
    },
  });
  const after = (...addresses: readonly string[]) => {
    read(addresses);
    return cleaned.splice(0);
  };
  expect(after("192.0.2.2")).toEqual([]);
  expect(after("192.0.2.2", "192.0.2.7", "fd00::7")).toEqual([
    [{ family: "ip", address: "192.0.2.7" }, { family: "ip6" }],
  ]);
  expect(after("192.0.2.2", "fd00::7", "fe80::1"), "also of the interfaces of new pods").toEqual([
    [{ family: "ip", address: "192.0.2.7" }],
  ]);
  expect(after("192.0.2.2", "fd00::7")).toEqual([]);
});

test("the loopback proxy is only notified when a NodePort, its owner or its endpoints change", () => {
  const nodeContext = testNodeContext({ loopbackNodePorts: true });
  const cache = cacheOf({
    services: [service(), nodePortService("old", 1, 2), nodePortService("new", 2, 3)],
  });
  const renderer = new Renderer(cache, nodeContext);
  const told: string[][] = [];
  const sync = async (wanted: readonly LoopbackNodePort[]) => {
    told.push(wanted.map(({ port, service }) => `${port} ${service}`));
  };
  const subscriber = loopbackNodePorts({ sync }, () => renderer.state);
  const after = (change: () => void) => {
    change();
    renderer.update(cache.takeDirty());
    subscriber.synced(syncReport({ nodeContext }));
    return told.splice(0);
  };
  const endpoints = (name: string, ...addresses: string[]) =>
    after(() =>
      cache.putSlice(
        slice({ service: name, name, endpoints: addresses.map((one) => endpoint(one)), family: "ip" }),
      ),
    );
  expect(after(() => {})).toEqual([[]]);
  expect(endpoints("web", "10.244.2.1")).toEqual([]);
  expect(endpoints("old", "10.244.2.2")).toEqual([["30080 default/old"]]);
  expect(endpoints("new", "10.244.2.3"), "it has lost the NodePort").toEqual([]);
  expect(after(() => cache.deleteService(named("old")))).toEqual([["30080 default/new"]]);
  expect(endpoints("new")).toEqual([[]]);
});

function nodePortService(name: string, createdAt: number, number: number) {
  return service({
    name,
    createdAt,
    clusterIPs: [`10.96.1.${number}`],
    ports: [port(80, { nodePort: 30080 })],
  });
}
