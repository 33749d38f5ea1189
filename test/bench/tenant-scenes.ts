import { decodeEndpointSlice } from "../../src/kube/decode/endpoint-slice.ts";
import { decodeService } from "../../src/kube/decode/service.ts";
import { MAX_SERVICE_ELEMENTS } from "../../src/model/budgets.ts";
import { elementCount, testNodeContext } from "../support/build.ts";
import {
  COUNTS,
  PAIRS,
  type TenantService,
  type TenantShape,
  tenantServices,
  tenantShape,
  withinBudget,
} from "../support/hostile-tenants.ts";
import { NEIGHBOUR_IP } from "./neighbour.ts";

/** The objects of a tenant. */
export interface Scene {
  readonly name: string;
  /** The namespace, or the prefix of several. */
  readonly services: (namespace: string) => readonly TenantService[];
}

const PORT_RANGES = 2000;
/** Maximum number of elements of all Services of a pair together, as many as one Service may have. */
const PAIR_ELEMENTS = MAX_SERVICE_ELEMENTS;

/** Scenes that once harmed neighbours, with their sizes. */
const FOUND: Readonly<Record<string, readonly Partial<TenantShape>[]>> = {
  "286 external IPs x 70 ranges (beyond its budget)": [{ externalIPs: 286, portRanges: 70 }],
  "100 ranges x 19 external IPs": [{ externalIPs: 19, portRanges: 100 }],
  "100 Services of 100 ranges each, one pod": [
    { services: 100, portRanges: 100, endpoints: 1, samePods: true },
  ],
  "10 namespaces of 2,000 ranges each": [{ services: 10, apart: true, externalIPs: 19, portRanges: 100 }],
  "40 Services of 585 ports, source-hash": [{ services: 40, ports: 585, scheduler: "source-hash" }],
  "40 Services of 585 ports, source-hash, a namespace each": [
    { services: 40, ports: 585, scheduler: "source-hash", apart: true },
  ],
  "300 Services of 400 ports at one external IP": [
    { services: 300, ports: 400, externalIPs: 1, sameAddresses: true, endpoints: 1 },
  ],
  "113 Services of 585 ports with affinity": [{ services: 113, ports: 585, endpoints: 1, sticky: true }],
  "the neighbour's address, 100 ports and 100 ranges": [
    { ports: 100, portRanges: 100, addressesOfOthers: [NEIGHBOUR_IP] },
  ],
  "100 ranges, amid them 1,000 ports of 10 Services at one external IP": [
    { portRanges: 100, externalIPs: 1, sameAddresses: true },
    { services: 10, ports: 1000, externalIPs: 1, sameAddresses: true },
  ],
  "40 Services of 585 UDP ports": [{ services: 40, ports: 585, protocol: "UDP" }],
  "60 Services of 100 ports x 1,000 endpoints, with resets": [
    { services: 60, ports: 100, endpoints: 1000, samePods: true, resets: true },
  ],
  "a Service of 16 ports x 9,000 endpoints that drain": [{ ports: 16, endpoints: 9000, drains: true }],
};

/** All scenes: first those that once harmed neighbours, then all pairs of features at their budgets. */
export function scenes(): readonly Scene[] {
  const found = Object.entries(FOUND).map(([name, parts]) => ({
    name,
    services: (namespace: string) =>
      parts.flatMap((part, index) => tenantServices(tenantShape(part), namespace, 1000 * index)),
  }));
  const pairs = PAIRS.map(([name, shape]) => {
    const fitting = withinBudget(shape, isWithinBudgets);
    return {
      name: `${name} (${sizesOf(fitting)})`,
      services: (namespace: string) => tenantServices(fitting, namespace),
    };
  });
  return [...found, ...pairs];
}

/** Returns true if each Service is within its budgets, and all together are within {@link PAIR_ELEMENTS}. */
function isWithinBudgets(shape: TenantShape): boolean {
  const [one] = tenantServices({ ...shape, services: 1 }, "fit");
  const service = decodeService(one?.service);
  if (service.kind !== "valid" || service.value.excess !== undefined) return false;
  const slices = (one?.slices ?? []).map((slice) => decodeEndpointSlice(slice));
  const decoded = slices.flatMap((slice) => (slice.kind === "valid" ? [slice.value] : []));
  const count = elementCount(service.value, decoded, testNodeContext());
  const ranges = shape.portRanges * (1 + shape.externalIPs + shape.loadBalancerIPs);
  return count * shape.services <= PAIR_ELEMENTS && ranges <= PORT_RANGES;
}

/** Returns the numbers greater than one: `100 portRanges, 19 externalIPs`. */
function sizesOf(shape: TenantShape): string {
  const sizes = COUNTS.filter((name) => shape[name] > 2).map((name) => `${shape[name]} ${name}`);
  return sizes.join(", ");
}
