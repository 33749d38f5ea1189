import fc from "fast-check";
import { expect, test } from "vitest";
import { Renderer } from "../../src/ruleset/renderer.ts";
import { AFFINITY } from "../../src/ruleset/sets.ts";
import { type DynamicEntry, evaluate } from "../../src/trace/evaluate.ts";
import type { Host, Packet } from "../../src/trace/packet.ts";
import {
  cacheOf,
  DRAINING,
  endpoint,
  localEndpoint,
  port,
  service,
  slice,
  testNodeContext,
} from "../support/build.ts";

const NODE: Host = { localAddresses: new Set(["192.0.2.2"]) };
const CLIENT = { address: "203.0.113.99", at: "outside", iifname: "eth0" } as const;
const WAYS = {
  internal: { to: "10.96.0.10", port: 80 },
  external: { to: "192.0.2.2", port: 30080 },
} as const;

const policy = fc.constantFrom("Cluster" as const, "Local" as const);
const state = fc.constantFrom("ready" as const, "ready" as const, "draining" as const, "absent" as const);
const anyEndpoints = fc.tuple(state, state, state, state, state, state).map((states) =>
  slice({
    endpoints: states.flatMap((each, index) => {
      const make = index < 3 ? localEndpoint : endpoint;
      return each === "absent" ? [] : [make(`10.244.1.${index + 1}`, each === "draining" ? DRAINING : {})];
    }),
  }),
);
const connects = fc.record({
  way: fc.constantFrom("internal" as const, "external" as const),
  chance: fc.nat(999),
});
const anyHistory = fc.array(
  fc.record({ endpoints: anyEndpoints, connections: fc.array(connects, { minLength: 1, maxLength: 6 }) }),
  { minLength: 1, maxLength: 5 },
);

test("a client keeps an endpoint for each policy, and starts with that of the other policy if allowed", () => {
  fc.assert(
    fc.property(policy, policy, anyHistory, (internal, external, history) => {
      const cache = cacheOf({ services: [], slices: [] });
      const renderer = new Renderer(cache, testNodeContext());
      const ports = [port(80, { nodePort: 30080 })];
      const web = service({ clusterIPs: ["10.96.0.10"], ports, affinitySeconds: 600, internal, external });
      const entries = new Map<string, DynamicEntry>();
      const kept = new Map<"Cluster" | "Local", string>();
      for (const { endpoints, connections } of history) {
        cache.putService(web);
        cache.putSlice(endpoints);
        renderer.update(cache.takeDirty());
        const tables = Object.values(renderer.state.ruleset);
        for (const { way, chance } of connections) {
          const [own, other] =
            { internal, external }[way] === "Local"
              ? (["Local", "Cluster"] as const)
              : (["Cluster", "Local"] as const);
          const packet: Packet = { from: CLIENT, protocol: "tcp", ...WAYS[way] };
          const answering = (known: Iterable<DynamicEntry>) =>
            evaluate(tables, NODE, packet, known).flatMap((one) => (one.kind === "delivered" ? [one] : []));
          const allowed = answering([]).map(({ to }) => to.address);
          const outcomes = answering(entries.values());
          const expected = [kept.get(own), kept.get(other)].find(
            (one) => one !== undefined && allowed.includes(one),
          );
          expect(outcomes.map(({ to }) => to.address).sort()).toEqual(
            expected === undefined ? allowed.sort() : [expected],
          );
          const outcome = outcomes[chance % outcomes.length];
          if (outcome === undefined) continue;
          kept.set(own, outcome.to.address);
          for (const { key, value, map } of outcome.updates)
            entries.set(key, { family: "ip", map, key, value });
        }
        expect([...entries.values()].every(({ map }) => map === AFFINITY)).toBe(true);
        expect(entries.size).toBe(kept.size);
      }
    }),
  );
});
