import { expect, test } from "vitest";
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
];

const guarded = service({
  clusterIPs: ["10.96.0.10", "fd00:10:96::10"],
  loadBalancerIPs: ["203.0.113.10", "fd00:1b::10"],
  sourceRanges: ["192.0.2.0/25", "192.0.2.200/32", "192.0.2.201/32", "fd00:c0::/64", "::1:2/128"],
  ports: [port(80, { nodePort: 30080 })],
  affinitySeconds: 60,
  external: "Local",
});

test.each(NODE_CONTEXTS)("every rule is rendered in canonical form, %s", (_, options) => {
  const objects = { services: [guarded], slices: [slice({ endpoints: ["10.244.2.11"] })] };
  const { ruleset } = renderAll(objects, testNodeContext(options)).state;
  const rules = Object.values(ruleset).flatMap((table) =>
    [...table.chains.values()].flatMap((chain) => chain.rules),
  );
  expect(rules.length).toBeGreaterThan(40);
  for (const rule of rules) expect(rule).toEqual(canonicalRule(rule));
});
