import fc from "fast-check";
import { expect, test } from "vitest";
import { compareOutcomes } from "../../src/inspect/outcomes/compare-outcomes.ts";
import { SliceEndpoints } from "../../src/model/endpoint-slice.ts";
import { withoutFeature } from "../../src/model/service.ts";
import { servicePortsOf } from "../../src/model/service-port.ts";
import { joinParts } from "../../src/nft/elements.ts";
import { nodePortKey } from "../../src/ruleset/keys.ts";
import { anyContexts, anyObjects } from "../support/arbitraries.ts";
import { DRAINING, GONE, type Objects, renderAll, STARTING } from "../support/build.ts";
import { kubeProxyTable } from "../support/kube-proxy-tables.ts";
import { runs } from "../support/property-runs.ts";

const host = { localAddresses: new Set(["192.0.2.2", "198.51.100.2", "fd00:c0::2"]) };

/**
 * The frontends that several service ports want: of these kube-proxy takes any, and nft-proxy the oldest one.
 */
function contested({ services }: Required<Objects>): ReadonlySet<string> {
  const wanted = new Map<string, number>();
  for (const { service, spec, family } of services.flatMap(servicePortsOf)) {
    const addresses = [
      service.clusterIPs[family],
      ...service.externalIPs[family],
      ...service.loadBalancerIPs[family],
    ];
    const keys = [...new Set(addresses)].map((address) => joinParts(address, spec.protocol, spec.port));
    const nodePort = spec.nodePort === 0 ? [] : [nodePortKey(family, spec.protocol, spec.nodePort)];
    for (const key of [...keys, ...nodePort]) wanted.set(key, (wanted.get(key) ?? 0) + 1);
    // An address that is the Service's cluster IP and an external one at once is contested by itself.
    if (addresses.lastIndexOf(service.clusterIPs[family]) > 0) wanted.set(keys[0] ?? "", 2);
  }
  return new Set([...wanted].flatMap(([key, count]) => (count > 1 ? [key] : [])));
}

/**
 * The objects with other conditions: endpoints that drain, start or are gone, in turn as `conditions` says.
 * Without schedulers, weights and port ranges, which kube-proxy does not have.
 */
function withConditions(objects: Required<Objects>, conditions: readonly object[]): Required<Objects> {
  let next = 0;
  const slices = objects.slices.map(({ features: _, ...slice }) => ({
    ...slice,
    endpoints: new SliceEndpoints(
      [...slice.endpoints].map((endpoint) => ({
        ...endpoint,
        ...conditions[next++ % conditions.length],
      })),
    ),
  }));
  const services = objects.services.map((service) =>
    withoutFeature(withoutFeature(service, "port-ranges"), "schedulers"),
  );
  return { services, slices };
}

const anyConditions = fc.array(fc.constantFrom({}, {}, DRAINING, GONE, STARTING), {
  minLength: 1,
  maxLength: 7,
});
const anyCluster = fc
  .tuple(anyObjects, anyConditions)
  .map(([objects, each]) => withConditions(objects, each));

test("random connections have the same outcomes by our rules as by kube-proxy's tables", () => {
  fc.assert(
    fc.property(anyCluster, anyContexts, (objects, nodeContext) => {
      const unsure = contested(objects);
      const ours = Object.values(renderAll(objects, nodeContext).state.ruleset);
      const theirs = nodeContext.map((context) => kubeProxyTable(objects, context));
      const podCIDRs = { ip: ["10.244.1.0/24"], ip6: ["fd00:244:1::/64"] };
      const { differences } = compareOutcomes(
        { tables: theirs, host },
        { tables: ours, host },
        nodeContext,
        podCIDRs,
      );
      const sure = differences.filter(({ frontend: { key } }) => !unsure.has(key));
      expect(sure).toEqual([]);
    }),
    { numRuns: runs(150) },
  );
});
