import { describe, expect, test } from "vitest";
import { connectionAttribution } from "../../../../src/conntrack/connection-attribution.ts";
import { ConnectionCounter } from "../../../../src/inspect/connections/connection-counter.ts";
import { isNamed } from "../../../../src/inspect/explain/query.ts";
import type { Flow } from "../../../../src/kernel/conntrack.ts";
import { Renderer } from "../../../../src/ruleset/renderer.ts";
import {
  cacheOf,
  DRAINING,
  endpoint,
  named,
  port,
  service,
  slice,
  testNodeContext,
} from "../../../support/build.ts";
import { flow } from "../../../support/fake-flow-table.ts";
import { schemaErrors } from "../../../support/output-schema.ts";

const TIMEOUTS = new Map([
  ["tcp_timeout_established", 86_400],
  ["tcp_timeout_unacknowledged", 300],
]);

function counter(
  options: { readonly draining?: boolean; readonly service?: string } = {},
): ConnectionCounter {
  const cache = cacheOf({
    services: [
      service({ ports: [port(80, { nodePort: 30080 })] }),
      service({ name: "shop/cart", clusterIPs: ["10.96.0.20"] }),
    ],
    slices: [
      slice({ endpoints: [endpoint("10.244.1.1", { pod: "default/web-1", nodeName: "node-1" })] }),
      slice({ name: "b", endpoints: [endpoint("10.244.1.2", DRAINING)] }),
      slice({ name: "c", service: "shop/cart", endpoints: ["10.244.1.1"] }),
    ],
  });
  const renderer = new Renderer(cache, testNodeContext());
  renderer.update(cache.takeDirty());
  const attribution = connectionAttribution(renderer.state, cache, new Set(["192.0.2.2"]));
  const { service: wanted, draining = false } = options;
  return new ConnectionCounter(attribution, TIMEOUTS, {
    draining,
    isWanted: (one) => wanted === undefined || isNamed(one, { service: named(wanted) }),
  });
}

function connection(to: string, replySource: string, options: Partial<Flow> = {}): Flow {
  const [address = "", port] = to.split(" ");
  return flow({
    destination: { address, port: Number(port ?? 80) },
    replySource: { address: replySource, port: 8080 },
    ...options,
  });
}

const WEB = "10.96.0.10";

function brief(counted: ConnectionCounter): string[] {
  return counted
    .report()
    .services.flatMap(({ service, endpoints }) =>
      endpoints.map((one) => `${service} ${one.address} ${one.condition} ${one.connections}`),
    );
}

describe("ConnectionCounter", () => {
  test("counts connections by Service and endpoint, through any frontend", () => {
    const counted = counter();
    counted.add(connection(WEB, "10.244.1.1"));
    counted.add(connection("192.0.2.2 30080", "10.244.1.1"));
    counted.add(connection("10.96.0.20", "10.244.1.1"));
    counted.add(connection(WEB, "10.244.1.2"));
    counted.add(connection(WEB, "10.244.1.3"));
    expect(brief(counted)).toEqual([
      "default/web 10.244.1.1 ready 2",
      "default/web 10.244.1.2 terminating 1",
      "default/web 10.244.1.3 vanished 1",
      "shop/cart 10.244.1.1 ready 1",
    ]);
  });

  test("counts connections to no frontend as unmanaged, including those to a NodePort's port at another address", () => {
    const counted = counter();
    counted.add(connection("198.51.100.1", "10.244.1.1"));
    counted.add(connection("198.51.100.1 30080", "10.244.1.1"));
    counted.add(connection(WEB, "10.244.1.1", { protocol: "udp" }));
    expect(counted.report()).toEqual({ services: [], unmanaged: 3 });
  });

  test("gives states, idle times and the number of unacknowledged connections", () => {
    const counted = counter();
    counted.add(connection(WEB, "10.244.1.1"));
    counted.add(connection(WEB, "10.244.1.1", { remaining: 250 }));
    counted.add(connection(WEB, "10.244.1.1", { state: "offloaded", remaining: undefined }));
    expect(counted.report().services[0]?.endpoints[0]).toEqual({
      address: "10.244.1.1",
      port: 8080,
      condition: "ready",
      pod: "default/web-1",
      node: "node-1",
      connections: 3,
      states: { established: 2, offloaded: 1 },
      unacknowledged: 1,
      idleSeconds: { shortest: 10, longest: 50 },
    });
  });

  test("with draining counts only terminating and vanished endpoints, and names the clients with most connections", () => {
    const counted = counter({ draining: true });
    counted.add(connection(WEB, "10.244.1.1"));
    for (let client = 1; client <= 12; client++) {
      for (let i = 0; i < (client === 12 ? 3 : 1); i++)
        counted.add(connection(WEB, "10.244.1.2", { client: { address: `10.1.1.${client}`, port: 1 } }));
    }
    expect(brief(counted)).toEqual(["default/web 10.244.1.2 terminating 14"]);
    expect(schemaErrors("connections", counted.report())).toEqual([]);
    expect(schemaErrors("connections", { ...counted.report(), unmanaged: -1 })).toHaveLength(1);
    const found = counted.report().services[0]?.endpoints[0];
    expect(found?.clients?.slice(0, 2)).toEqual([
      { address: "10.1.1.12", connections: 3 },
      { address: "10.1.1.1", connections: 1 },
    ]);
    expect(found?.clients).toHaveLength(10);
    expect(found?.connectionsOfOtherClients).toBe(2);
  });

  test("with a Service counts only its own connections", () => {
    const counted = counter({ service: "shop/cart" });
    counted.add(connection(WEB, "10.244.1.1"));
    counted.add(connection("10.96.0.20", "10.244.1.1"));
    expect(brief(counted)).toEqual(["shop/cart 10.244.1.1 ready 1"]);
  });

  test("counts at most 20,000 vanished endpoints separately, and the connections of all", () => {
    const counted = counter();
    for (let i = 0; i < 20_100; i++) counted.add(connection(WEB, `10.245.${i >> 8}.${i & 255}`));
    const endpoints = counted.report().services[0]?.endpoints ?? [];
    expect(endpoints).toHaveLength(20_001);
    expect(endpoints.at(-1)).toMatchObject({ address: "", condition: "vanished", connections: 100 });
  });
});
