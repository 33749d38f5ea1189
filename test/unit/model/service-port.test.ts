import { describe, expect, test } from "vitest";
import {
  comparePrecedence,
  comparePrecedenceFor,
  isExternallyAccessible,
  servicePortsOf,
  usesClusterEndpoints,
  usesLocalEndpoints,
} from "../../../src/model/service-port.ts";
import { port, type ServiceOptions, service, servicePort } from "../../support/build.ts";

describe("servicePortsOf", () => {
  const ports = [port(53, { name: "dns" }), port(53, { name: "dns", protocol: "udp" }), port(80)];
  const keys = (clusterIPs: string[]) => servicePortsOf(service({ clusterIPs, ports })).map(({ key }) => key);

  test("gives every port in every family that has a cluster IP", () => {
    expect(keys(["fd00:10:96::10", "10.96.0.10"])).toEqual([
      "ip default/web:dns/tcp",
      "ip default/web:dns/udp",
      "ip default/web/tcp",
      "ip6 default/web:dns/tcp",
      "ip6 default/web:dns/udp",
      "ip6 default/web/tcp",
    ]);
  });

  test("gives none in a family without a cluster IP, or where there is no cluster IP", () => {
    expect(keys(["fd00:10:96::10"]).every((key) => key.startsWith("ip6 "))).toBe(true);
    expect(keys([])).toEqual([]);
  });
});

const nodePort = { ports: [port(80, { nodePort: 30080 })] };
test.each<[string, ServiceOptions, { outside: boolean; cluster: boolean; local: boolean }]>([
  ["without policies", {}, { outside: false, cluster: true, local: false }],
  ["with internal Local policy", { internal: "Local" }, { outside: false, cluster: false, local: true }],
  [
    "with external Local policy that nothing reaches from outside",
    { external: "Local" },
    { outside: false, cluster: true, local: false },
  ],
  [
    "with external Local policy and a NodePort",
    { external: "Local", ...nodePort },
    { outside: true, cluster: true, local: true },
  ],
  ["with an external IP", { externalIPs: ["203.0.113.1"] }, { outside: true, cluster: true, local: false }],
  [
    "with an external IP of the other family",
    { externalIPs: ["fd00::1"] },
    { outside: false, cluster: true, local: false },
  ],
  [
    "with a load balancer and Local for all policies",
    { internal: "Local", external: "Local", loadBalancerIPs: ["203.0.113.1"] },
    { outside: true, cluster: true, local: true },
  ],
])("a service port %s uses the right lists of endpoints", (_, options, expected) => {
  const each = servicePort(options);
  expect({
    outside: isExternallyAccessible(each),
    cluster: usesClusterEndpoints(each),
    local: usesLocalEndpoints(each),
  }).toEqual(expected);
});

test("precedence for a cluster IP goes to its Service, also before an older one that names it as an external IP", () => {
  const own = servicePort({ name: "own", createdAt: 2, clusterIPs: ["10.96.0.7"] });
  const older = servicePort({
    name: "older",
    createdAt: 1,
    clusterIPs: ["10.96.0.8"],
    externalIPs: ["10.96.0.7"],
  });
  expect(comparePrecedenceFor("10.96.0.7", own, older)).toBeLessThan(0);
  expect(comparePrecedenceFor("10.96.0.7", older, own)).toBeGreaterThan(0);
  expect(comparePrecedenceFor("203.0.113.7", own, older)).toBeGreaterThan(0);
});

test.each<[string, ServiceOptions, ServiceOptions]>([
  ["the older Service", { name: "z", createdAt: 1 }, { name: "a", createdAt: 2 }],
  ["the namespace that sorts first, at the same age", { name: "a/z" }, { name: "b/a" }],
  ["the name that sorts first, at the same age and namespace", { name: "web" }, { name: "web-2" }],
  [
    "the port whose name sorts first, in one Service",
    { ports: [port(80)] },
    { ports: [port(81, { name: "b" })] },
  ],
])("precedence goes to %s", (_, first, second) => {
  expect(comparePrecedence(servicePort(first), servicePort(second))).toBeLessThan(0);
  expect(comparePrecedence(servicePort(second), servicePort(first))).toBeGreaterThan(0);
  expect(comparePrecedence(servicePort(first), servicePort(first))).toBe(0);
});
