import { describe, expect, test } from "vitest";
import { firewallChain } from "../../../src/ruleset/firewall.ts";
import { type ContextOptions, familyContext, port, type ServiceOptions, servicePort } from "../../support/build.ts";

const IP = "203.0.113.10";
const base: ServiceOptions = { loadBalancerIPs: [IP], ports: [port(80, { name: "http" })] };

/** The sources that the chain lets pass, or undefined where there is no chain. */
function allowed(options: ServiceOptions, context: ContextOptions = {}) {
  const chain = firewallChain(servicePort({ ...base, ...options }), familyContext("ip", context));
  const [rule] = chain?.rules ?? [];
  const [guard] = rule ?? [];
  return guard === undefined || !("match" in guard) ? undefined : guard.match.right;
}

const prefix = (addr: string, len: number) => ({ prefix: { addr, len } });

describe("firewallChain", () => {
  test("drops what does not come from the ranges, and nothing else", () => {
    const chain = firewallChain(
      servicePort({ ...base, sourceRanges: ["198.51.100.0/24"] }),
      familyContext("ip", { refusalLogSize: 0 }),
    );
    expect(chain).toEqual({
      name: "firewall-default/web/tcp/http",
      rules: [
        [
          {
            match: {
              op: "!=",
              left: { payload: { protocol: "ip", field: "saddr" } },
              right: prefix("198.51.100.0", 24),
            },
          },
          { drop: null },
        ],
      ],
    });
  });

  test("joins ranges that overlap or touch, in any order", () => {
    const ranges = ["10.0.0.0/9", "10.1.0.0/16", "10.128.0.0/9", "198.51.100.7/32"];
    const joined = { set: [prefix("10.0.0.0", 8), "198.51.100.7"] };
    expect(allowed({ sourceRanges: ranges })).toEqual(joined);
    expect(allowed({ sourceRanges: ranges.toReversed() })).toEqual(joined);
  });

  test("lets the load balancer's address pass where the node's may, for the node uses it as its source", () => {
    expect(allowed({ sourceRanges: ["192.0.2.0/24"] })).toEqual({ set: [prefix("192.0.2.0", 24), IP] });
    expect(allowed({ sourceRanges: ["192.0.2.0/24"] }, { nodeAddress: "" })).toEqual(prefix("192.0.2.0", 24));
    expect(allowed({ sourceRanges: ["198.51.100.0/24"] })).toEqual(prefix("198.51.100.0", 24));
  });

  test.each([
    ["no ranges", {}],
    ["ranges of the other family only", { sourceRanges: ["fd00::/8"] }],
    ["no load balancer's address of this family", { sourceRanges: ["10.0.0.0/8"], loadBalancerIPs: ["fd00::1"] }],
    ["external IPs, which are not guarded", { sourceRanges: ["10.0.0.0/8"], loadBalancerIPs: [], externalIPs: [IP] }],
    ["ranges that allow everything", { sourceRanges: ["10.0.0.0/8", "0.0.0.0/0"] }],
    ["ranges that allow everything in two halves", { sourceRanges: ["128.0.0.0/1", "0.0.0.0/1"] }],
  ])("makes no chain for %s", (_, options) => {
    expect(firewallChain(servicePort({ ...base, ...options }), familyContext("ip"))).toBeUndefined();
  });
});
