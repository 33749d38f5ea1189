import { describe, expect, test } from "vitest";
import { sourceRanges } from "../../../src/ruleset/source-ranges.ts";
import {
  type ContextOptions,
  familyContext,
  port,
  type ServiceOptions,
  servicePort,
} from "../../support/build.ts";

const IP = "203.0.113.10";
const base: ServiceOptions = { loadBalancerIPs: [IP], ports: [port(80, { name: "http" })] };

const guardOf = (options: ServiceOptions, context: ContextOptions = {}) =>
  sourceRanges(servicePort({ ...base, ...options }), familyContext("ip", context));

/** The sources that may come, or undefined where all may. */
const allowed = (options: ServiceOptions, context: ContextOptions = {}) => guardOf(options, context)?.ranges;

describe("sourceRanges", () => {
  test("are a set, and a chain that drops what does not come from it and nothing else", () => {
    const guard = guardOf({ sourceRanges: ["198.51.100.0/24"] }, { refusalLogSize: 0 });
    const hash = guard?.chain.name.replace("firewall-", "");
    expect(hash).toMatch(/^[\da-f]{20}$/);
    expect(guard).toEqual({
      chain: {
        name: `firewall-${hash}`,
        rules: [
          [
            {
              match: {
                op: "!=",
                left: { payload: { protocol: "ip", field: "saddr" } },
                right: `@source-ranges-${hash}`,
              },
            },
            { drop: null },
          ],
        ],
      },
      set: {
        name: `source-ranges-${hash}`,
        key: ["ipv4_addr"],
        dynamic: false,
        counter: false,
        interval: true,
      },
      ranges: ["198.51.100.0/24"],
    });
  });

  test("are the same for all Services with the same ranges, in whatever form", () => {
    const one = guardOf({ sourceRanges: ["10.0.0.0/9", "10.128.0.0/9", "198.51.100.7/32"] });
    const other = guardOf({
      name: "other",
      loadBalancerIPs: ["203.0.113.99"],
      sourceRanges: ["198.51.100.7/32", "10.0.0.0/8"],
    });
    expect(other).toEqual(one);
    expect(guardOf({ sourceRanges: ["10.0.0.0/8"] })?.set.name).not.toBe(one?.set.name);
  });

  test("that overlap or touch are joined, in any order", () => {
    const ranges = [
      "10.0.0.0/9",
      "10.1.0.0/16",
      "10.128.0.0/9",
      "198.51.100.7/32",
      "192.0.0.1/32",
      "192.0.0.2/31",
    ];
    const joined = ["10.0.0.0/8", "192.0.0.1-192.0.0.3", "198.51.100.7"];
    expect(allowed({ sourceRanges: ranges })).toEqual(joined);
    expect(allowed({ sourceRanges: ranges.toReversed() })).toEqual(joined);
  });

  test("let the load balancer's address pass where the node's may, for the node uses it as its source", () => {
    expect(allowed({ sourceRanges: ["192.0.2.0/24"] })).toEqual(["192.0.2.0/24", IP]);
    expect(allowed({ sourceRanges: ["192.0.2.0/24"] }, { nodeAddress: "" })).toEqual(["192.0.2.0/24"]);
    expect(allowed({ sourceRanges: ["198.51.100.0/24"] })).toEqual(["198.51.100.0/24"]);
  });

  test("are computed again for a changed Service only if the ranges or the addresses changed", () => {
    const context = familyContext("ip");
    const before = servicePort({ ...base, sourceRanges: ["192.0.2.0/24"] });
    const known = sourceRanges(before, context);
    const withChanges = (options: ServiceOptions) =>
      sourceRanges(
        servicePort({ ...base, sourceRanges: ["192.0.2.0/24"], ...options }),
        context,
        before.service,
      );
    expect(withChanges({ affinitySeconds: 60 })).toBe(known);
    expect(withChanges({ sourceRanges: ["192.0.3.0/24"] })?.ranges).toEqual(["192.0.3.0/24"]);
    expect(withChanges({ sourceRanges: ["192.0.2.0/24", "192.0.3.0/24"] })?.ranges).toHaveLength(2);
    expect(withChanges({ loadBalancerIPs: ["203.0.113.11"] })?.ranges).toContain("203.0.113.11");
  });

  test.each([
    ["no ranges", {}],
    ["ranges of the other family only", { sourceRanges: ["fd00::/8"] }],
    [
      "no load balancer's address of this family",
      { sourceRanges: ["10.0.0.0/8"], loadBalancerIPs: ["fd00::1"] },
    ],
    [
      "external IPs, which are not guarded",
      { sourceRanges: ["10.0.0.0/8"], loadBalancerIPs: [], externalIPs: [IP] },
    ],
    ["ranges that allow everything", { sourceRanges: ["10.0.0.0/8", "0.0.0.0/0"] }],
    ["ranges that allow everything in two halves", { sourceRanges: ["128.0.0.0/1", "0.0.0.0/1"] }],
  ])("guard nothing for %s", (_, options) => {
    expect(guardOf(options)).toBeUndefined();
  });
});
