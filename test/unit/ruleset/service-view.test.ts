import { expect, test } from "vitest";
import type { ObjectCache } from "../../../src/model/object-cache.ts";
import { Renderer } from "../../../src/ruleset/renderer.ts";
import { type ServicePortView, viewService } from "../../../src/ruleset/service-view.ts";
import {
  cacheOf,
  DRAINING,
  endpoint,
  localEndpoint,
  named,
  type Objects,
  port,
  STARTING,
  service,
  slice,
  testNodeContext,
} from "../../support/build.ts";

function view(objects: Objects, name = "web"): ServicePortView[] {
  const cache: ObjectCache = cacheOf(objects);
  const nodeContext = testNodeContext();
  const renderer = new Renderer(cache, nodeContext);
  renderer.update(cache.takeDirty());
  return viewService(cache, named(name), nodeContext, renderer.state);
}

/** `origin key outcome`, the endpoints connections from outside go to, and who has it if somebody else. */
function frontendsOf(views: readonly ServicePortView[], name = "default/web"): string[] {
  return views.flatMap(({ frontends }) =>
    frontends.map(({ origin, key, outcome, endpoints, guarded, owner }) => {
      const holder = owner?.service.name === name ? "" : ` (${owner?.service.name ?? "nobody"})`;
      return `${origin} ${key} ${outcome} ${endpoints.length}${guarded ? " guarded" : ""}${holder}`;
    }),
  );
}

test("viewService shows every frontend with its outcome, in both families", () => {
  const services = [
    service({
      clusterIPs: ["10.96.0.10", "fd00:10:96::a"],
      ports: [port(80, { nodePort: 30080 })],
      externalIPs: ["192.0.2.9"],
      loadBalancerIPs: ["203.0.113.7"],
      sourceRanges: ["198.51.100.0/24"],
      external: "Local",
    }),
  ];
  const slices = [slice({ endpoints: ["10.244.2.1", localEndpoint("10.244.1.1")] })];
  expect(frontendsOf(view({ services, slices }))).toEqual([
    "cluster-ip 10.96.0.10 . tcp . 80 served 2",
    "external-ip 192.0.2.9 . tcp . 80 served 1",
    "load-balancer-ip 203.0.113.7 . tcp . 80 served 1 guarded",
    "node-port 0.0.0.0 . tcp . 30080 served 1",
    "cluster-ip fd00:10:96::a . tcp . 80 no-endpoints 0",
    "node-port :: . tcp . 30080 no-endpoints 0",
  ]);
});

test("viewService shows a frontend as dropped with endpoints elsewhere, and as refused without any", () => {
  const services = [service({ ports: [port(80, { nodePort: 30080 })], external: "Local" })];
  const elsewhere = view({ services, slices: [slice({ endpoints: ["10.244.2.1"] })] });
  expect(frontendsOf(elsewhere)).toEqual([
    "cluster-ip 10.96.0.10 . tcp . 80 served 1",
    "node-port 0.0.0.0 . tcp . 30080 no-local-endpoints 0",
  ]);
  expect(frontendsOf(view({ services }))).toEqual([
    "cluster-ip 10.96.0.10 . tcp . 80 no-endpoints 0",
    "node-port 0.0.0.0 . tcp . 30080 no-endpoints 0",
  ]);
});

test("viewService names the Service that won a conflict", () => {
  const services = [
    service({ name: "old", clusterIPs: ["10.96.0.11"], externalIPs: ["192.0.2.9"], createdAt: 1 }),
    service({ externalIPs: ["192.0.2.9"], createdAt: 2 }),
  ];
  expect(frontendsOf(view({ services }))).toContain(
    "external-ip 192.0.2.9 . tcp . 80 no-endpoints 0 (default/old)",
  );
});

test("viewService gives each endpoint the lists that use it, or the reason for its exclusion", () => {
  const services = [service({ ports: [port(80, { nodePort: 30080 })], external: "Local" })];
  const slices = [
    slice({
      endpoints: [
        localEndpoint("10.244.1.1"),
        endpoint("10.244.2.1"),
        localEndpoint("10.244.1.2", STARTING),
        localEndpoint("10.244.1.3", DRAINING),
      ],
    }),
  ];
  const [shown] = view({ services, slices });
  expect(
    shown?.endpoints.map(({ endpoint: { address }, cluster, local }) => [address, cluster, local]),
  ).toEqual([
    ["10.244.1.1", "used", "used"],
    ["10.244.1.2", "not-ready", "not-ready"],
    ["10.244.1.3", "terminating", "terminating"],
    ["10.244.2.1", "used", "not-local"],
  ]);
});

test("viewService shows nothing of an unknown Service", () => {
  expect(view({}, "absent")).toEqual([]);
});
