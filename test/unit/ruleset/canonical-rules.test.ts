import { expect, test } from "vitest";
import { FAMILIES } from "../../../src/base/family.ts";
import { familyOf } from "../../../src/model/ip.ts";
import { canonicalRule } from "../../../src/nft/canonical/canonical-rule.ts";
import {
  type ContextOptions,
  port,
  renderAll,
  service,
  slice,
  testNodeContext,
} from "../../support/build.ts";

const NODE_CONTEXTS: readonly (readonly [string, ContextOptions])[] = [
  ["as usual", {}],
  ["where little is known", { localTraffic: { kind: "unknown" }, serviceCIDRs: [] }],
  ["where pods are told by their interface", { localTraffic: { kind: "interface", pattern: "veth*" } }],
  ["where all is masqueraded", { masqueradeAll: true, nodePorts: { kind: "all" } }],
  ["where pings are answered", { settings: { answerPing: true } }],
];

const guarded = service({
  clusterIPs: ["10.96.0.10", "fd00:10:96::10"],
  loadBalancerIPs: ["203.0.113.10", "fd00:1b::10"],
  sourceRanges: ["192.0.2.0/25", "192.0.2.200/32", "192.0.2.201/32", "fd00:c0::/64", "::1:2/128"],
  ports: [port(80, { nodePort: 30080 })],
  affinitySeconds: 60,
  external: "Local",
});

const ranged = service({
  ...{ name: "ranged", clusterIPs: ["10.96.0.11", "fd00:10:96::11"] },
  loadBalancerIPs: ["203.0.113.11", "fd00:1b::11"],
  sourceRanges: ["198.51.100.0/24", "fd00:c0::/48"],
  ports: [port(81, { ranges: [{ first: 8000, last: 8099 }] })],
  scheduler: "round-robin",
});

const ENDPOINTS = Array.from({ length: 70 }, (_, i) => [`10.244.2.${i}`, `fd00:244::${i}`]).flat();

test.each(NODE_CONTEXTS)("every rule is rendered in canonical form, %s", (_, options) => {
  const objects = {
    services: [guarded, ranged],
    slices: ["web", "ranged"].flatMap((name) =>
      FAMILIES.map((family) => {
        const endpoints = ENDPOINTS.filter((address) => familyOf(address) === family);
        return slice({ service: name, endpoints, family });
      }),
    ),
  };
  const { ruleset } = renderAll(objects, testNodeContext(options)).state;
  const rules = Object.values(ruleset).flatMap((table) =>
    [...table.chains.values()].flatMap((chain) => chain.rules),
  );
  expect(rules.length).toBeGreaterThan(100);
  for (const { chains = new Map() } of Object.values(ruleset)) {
    const names = [...chains.keys()].join(" ");
    for (const name of [
      "affinity-both",
      "choose-balance-72",
      "remember-60",
      "round-robin-72",
      "range-source-ranges-allowed",
    ])
      expect(names).toContain(name);
  }
  for (const rule of rules) expect(rule).toEqual(canonicalRule(rule));
});
