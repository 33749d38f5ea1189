import { describe, expect, test } from "vitest";
import { refusedFrontend } from "../../../src/ruleset/refusal-causes.ts";
import {
  type ContextOptions,
  endpoint,
  port,
  renderAll,
  service,
  slice,
  testNodeContext,
} from "../../support/build.ts";

const NODE_PORT = { nodePort: 30_080 };

/**
 * `web` is served, `empty` has no endpoints, `far` none here, `guarded` source ranges, `closed` these but no
 * endpoints, `limited` limits, too.
 */
const objects = {
  services: [
    service({ name: "web", clusterIPs: ["10.96.0.1"], ports: [port(80, NODE_PORT)] }),
    service({ name: "empty", clusterIPs: ["10.96.0.2"], ports: [port(80, { nodePort: 30_081 })] }),
    service({ name: "far", clusterIPs: ["10.96.0.3"], internal: "Local" }),
    service({
      name: "guarded",
      clusterIPs: ["10.96.0.4"],
      loadBalancerIPs: ["203.0.113.10"],
      sourceRanges: ["198.51.100.0/24"],
    }),
    service({
      name: "closed",
      clusterIPs: ["10.96.0.6"],
      loadBalancerIPs: ["203.0.113.12"],
      sourceRanges: ["198.51.100.0/24"],
    }),
    service({
      name: "limited",
      clusterIPs: ["10.96.0.5"],
      loadBalancerIPs: ["203.0.113.11"],
      sourceRanges: ["198.51.100.0/24"],
      clientLimits: { connections: 5 },
    }),
  ],
  slices: ["web", "far", "guarded", "limited"].map((name) =>
    slice({ service: name, endpoints: [endpoint("10.244.2.12")] }),
  ),
};

/** `default/web no-endpoints` */
function reasonOf(to: string, options: ContextOptions = {}, client = "192.0.2.77"): string {
  const { ip } = renderAll(objects, testNodeContext(options)).state.families;
  if (ip === undefined) throw new Error("no IPv4");
  const [address = "", number = ""] = to.split(":");
  const found = refusedFrontend(ip, { client, address, protocol: "tcp", port: Number(number) });
  return `${found.port?.service.name ?? "nobody"} ${found.cause}`;
}

describe("the cause of a refusal", () => {
  test.each([
    ["of a Service without endpoints", "10.96.0.2:80", "default/empty no-endpoints"],
    ["of a Service without endpoints, by its NodePort", "192.0.2.2:30081", "default/empty no-endpoints"],
    ["of a Service whose endpoints are elsewhere", "10.96.0.3:80", "default/far no-local-endpoints"],
    ["at a load balancer's address with source ranges", "203.0.113.10:80", "default/guarded source-ranges"],
    ["of a Service that is served by now", "10.96.0.1:80", "default/web served"],
    ["of a Service that is served by now, by its NodePort", "192.0.2.2:30080", "default/web served"],
    ["at a cluster IP, of a port that it does not have", "10.96.0.1:30080", "nobody unserved-port"],
    ["at an address of no Service", "198.51.100.9:30080", "nobody no-service"],
  ])("%s is found", (_which, to, reason) => {
    expect(reasonOf(to)).toBe(reason);
  });

  test("at a frontend without endpoints is its source ranges only for the clients that they forbid", () => {
    expect(reasonOf("203.0.113.12:80")).toBe("default/closed source-ranges");
    expect(reasonOf("203.0.113.12:80", {}, "198.51.100.7")).toBe("default/closed no-endpoints");
  });

  test("of a client with limits is these, unless source ranges forbid the client", () => {
    expect(reasonOf("10.96.0.5:80")).toBe("default/limited client-limits");
    expect(reasonOf("203.0.113.11:80")).toBe("default/limited source-ranges");
    expect(reasonOf("203.0.113.11:80", {}, "198.51.100.7")).toBe("default/limited client-limits");
    expect(reasonOf("10.96.0.5:80", { lacking: ["client-limits"] })).toBe("default/limited served");
  });

  test("at any address but cluster IPs may be that of a NodePort where all addresses serve them", () => {
    const everywhere: ContextOptions = { nodePorts: { kind: "all" } };
    expect(reasonOf("198.51.100.9:30081", everywhere)).toBe("default/empty no-endpoints");
    expect(reasonOf("10.96.0.1:30081", everywhere)).toBe("nobody unserved-port");
  });
});
