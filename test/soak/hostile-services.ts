import { SCHEDULER_ANNOTATION } from "../../src/features/schedulers/scheduler.ts";
import { type ApiPort, apiService, apiSlice } from "../support/api-objects.ts";
import {
  MOTIONS,
  type TenantChange,
  type TenantShape,
  tenantServices,
  tenantShape,
} from "../support/hostile-tenants.ts";
import type { StubObject } from "../support/stub-api/selectors.ts";
import { ECHO_PORT, TARGETS } from "./targets.ts";

/**
 * How large the objects are: as large as the budgets of `src/model/budgets.ts` allow, each in its own
 * way.
 */
const SIZES = {
  sourceRanges: 20_000,
  addresses: 2000,
  portsOfAddresses: 70,
  ports: 1000,
  portsOfService: 100,
  endpoints: 5000,
  portsOfEndpoints: 29,
  annotation: 256 * 1024,
} as const;

/** Endpoints of one slice, as many as the controller of a cluster makes. */
const SLICE = 100;

const HASHED = { [SCHEDULER_ANNOTATION]: "source-hash" };

/** The objects of a tenant who means harm, or knows no measure. */
export interface HostileObjects {
  readonly services: readonly StubObject[];
  readonly slices: readonly StubObject[];
}

/** The kinds of such objects, by the words of the report. */
export const HOSTILE: Readonly<Record<string, () => HostileObjects>> = {
  [`a Service with ${SIZES.sourceRanges} source ranges`]: () => {
    // Every second address: neighbours are joined.
    const loadBalancerSourceRanges = times(
      SIZES.sourceRanges,
      (n) => `11.${n >> 15}.${(n >> 7) & 255}.${(n & 127) * 2}/32`,
    );
    const ingress = [{ ip: "203.0.113.77" }];
    const spec = { type: "LoadBalancer", loadBalancerSourceRanges };
    return one({
      ...service("hostile-ranges", 1, [{ port: 80 }], spec),
      status: { loadBalancer: { ingress } },
    });
  },
  [`a Service of ${SIZES.addresses} external addresses x ${SIZES.portsOfAddresses} ports`]: () => {
    const externalIPs = times(SIZES.addresses, (n) => `198.18.${8 + (n >> 8)}.${n & 255}`);
    const ports = portsFrom(1000, SIZES.portsOfAddresses);
    return one(service("hostile-addresses", 2, ports, { externalIPs }), ports);
  },
  [`${SIZES.ports} ports in Services of ${SIZES.portsOfService}`]: () => {
    const ports = portsFrom(2000, SIZES.portsOfService);
    const all = times(SIZES.ports / SIZES.portsOfService, (n) =>
      one(service(`hostile-ports-${n}`, 10 + n, ports, {}), ports),
    );
    return { services: all.flatMap(({ services }) => services), slices: all.flatMap(({ slices }) => slices) };
  },
  [`a Service with ${SIZES.endpoints} endpoints, by hash`]: () => {
    const ports = [{ port: 80 }];
    const of = annotated(service("hostile-hash", 3, ports, {}), HASHED);
    return { services: [of], slices: slicesOf("hostile-hash", SIZES.endpoints, ports) };
  },
  [`a Service with ${SIZES.endpoints} endpoints x ${SIZES.portsOfEndpoints} ports`]: () => {
    const ports = portsFrom(3000, SIZES.portsOfEndpoints);
    const slices = slicesOf("hostile-endpoints", SIZES.endpoints, ports);
    return { services: [service("hostile-endpoints", 7, ports, {})], slices };
  },
  "names of 63 letters": () => {
    const long = "n".repeat(63);
    const { metadata, ...rest } = service(long, 4, [{ port: 80 }], {});
    const slice = apiSlice(long, ENDPOINTS);
    const namespace = "s".repeat(63);
    return {
      services: [{ ...rest, metadata: { ...metadata, namespace } }],
      slices: [{ ...slice, metadata: { ...slice.metadata, namespace } }],
    };
  },
  [`annotations of ${SIZES.annotation / 1024} KiB`]: () => {
    const value = "x".repeat(SIZES.annotation - SCHEDULER_ANNOTATION.length);
    return one(
      annotated(service("hostile-annotation", 5, [{ port: 80 }], {}), { [SCHEDULER_ANNOTATION]: value }),
    );
  },
  "a Service with the addresses of others": () => {
    const externalIPs = TARGETS.map(({ clusterIP }) => clusterIP);
    const ports = [
      { port: 80 },
      { port: ECHO_PORT, targetPort: ECHO_PORT },
      { port: 53, protocol: "UDP" } as const,
    ];
    return one(service("hostile-thief", 6, ports, { externalIPs }), ports);
  },
};

/** Tenants who change all that they have at once, again and again, by the words of the report. */
const TENANTS: Readonly<Record<string, Partial<TenantShape>>> = {
  "a tenant of 100 port ranges x 19 addresses": { portRanges: 100, externalIPs: 19 },
  "a tenant of 100 Services of 50 port ranges, one pod": {
    services: 100,
    portRanges: 50,
    endpoints: 1,
    samePods: true,
  },
  "a tenant of 20 Services of 585 ports, by hash": { services: 20, ports: 585, scheduler: "source-hash" },
  "a tenant of 50 Services of 100 ports at one address": {
    services: 50,
    ports: 100,
    externalIPs: 1,
    sameAddresses: true,
  },
  "a tenant of 50 sticky Services in as many namespaces": {
    services: 50,
    ports: 20,
    sticky: true,
    apart: true,
  },
};

/** What those tenants do, one step after the other, by the words of the report. */
export const TENANT_STEPS: Readonly<Record<string, readonly (() => readonly TenantChange[])[]>> =
  Object.fromEntries(
    Object.entries(TENANTS).map(([name, shape], index) => {
      const services = tenantServices(tenantShape(shape), `tenant${index}`);
      return [name, Object.values(MOTIONS).map((motion, round) => () => motion(services, round))];
    }),
  );

const ENDPOINTS = ["10.250.255.1", "10.250.255.2"];

/** A Service that is younger than all others, with a ClusterIP of its own for each number. */
function service(
  name: string,
  number: number,
  ports: readonly ApiPort[],
  spec: Readonly<Record<string, unknown>>,
): StubObject {
  const { metadata, ...rest } = apiService(name, { clusterIP: `10.98.0.${number}`, ports, spec });
  return { ...rest, metadata: { ...metadata, creationTimestamp: "2026-11-22T00:00:00Z" } };
}

function annotated(object: StubObject, annotations: Readonly<Record<string, string>>): StubObject {
  return { ...object, metadata: { ...object.metadata, annotations } };
}

function one(object: StubObject, ports: readonly ApiPort[] = [{ port: 80 }]): HostileObjects {
  return { services: [object], slices: [apiSlice(object.metadata.name, ENDPOINTS, ports)] };
}

function slicesOf(name: string, endpoints: number, ports: readonly ApiPort[]): StubObject[] {
  return times(endpoints / SLICE, (slice) => {
    const addresses = times(SLICE, (n) => `10.250.${slice}.${n + 1}`);
    const { metadata, ...rest } = apiSlice(name, addresses, ports);
    return { ...rest, metadata: { ...metadata, name: `${name}-${slice}` } };
  });
}

function portsFrom(first: number, count: number): readonly ApiPort[] {
  return times(count, (n) => ({ port: first + n }));
}

function times<T>(count: number, make: (n: number) => T): T[] {
  return Array.from({ length: count }, (_, n) => make(n));
}
