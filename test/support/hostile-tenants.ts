import { DRAIN_TIMEOUT_ANNOTATION, ON_REMOVED_ANNOTATION } from "../../src/features/connection-life/life.ts";
import { PORT_RANGES_ANNOTATION } from "../../src/features/port-ranges/parse.ts";
import { SCHEDULER_ANNOTATION, WEIGHT_ANNOTATION } from "../../src/features/schedulers/scheduler.ts";
import { type ApiPort, apiService, apiSlice } from "./api-objects.ts";
import type { StubObject } from "./stub-api/selectors.ts";

/** The numbers of a tenant's things. Except for the number of Services, each is for one Service. */
export interface TenantShape {
  readonly services: number;
  readonly ports: number;
  readonly endpoints: number;
  readonly externalIPs: number;
  readonly loadBalancerIPs: number;
  readonly sourceRanges: number;
  /** Port ranges of the first port. */
  readonly portRanges: number;
  /** Each Service is in a namespace of its own. */
  readonly apart: boolean;
  /** All Services have the same pods. */
  readonly samePods: boolean;
  /** All Services want the same external addresses. */
  readonly sameAddresses: boolean;
  /** External addresses of other tenants. */
  readonly addressesOfOthers: readonly string[];
  readonly sticky: boolean;
  readonly scheduler: string | undefined;
  readonly weighted: boolean;
  readonly local: boolean;
  readonly protocol: "TCP" | "UDP";
  /** Whether connections to endpoints that leave are reset. */
  readonly resets: boolean;
  /** Whether terminating endpoints have a drain timeout. */
  readonly drains: boolean;
}

const PLAIN: TenantShape = {
  services: 1,
  ports: 1,
  endpoints: 2,
  externalIPs: 0,
  loadBalancerIPs: 0,
  sourceRanges: 0,
  portRanges: 0,
  apart: false,
  samePods: false,
  sameAddresses: false,
  addressesOfOthers: [],
  sticky: false,
  scheduler: undefined,
  weighted: false,
  local: false,
  protocol: "TCP",
  resets: false,
  drains: false,
};

/** The features of a Service, each at its limit, in the order of the names of pairs. */
export const FEATURES: Readonly<Record<string, Partial<TenantShape>>> = {
  "port ranges": { portRanges: 100 },
  addresses: { externalIPs: 1000, loadBalancerIPs: 1000 },
  "source ranges": { sourceRanges: 20_000, loadBalancerIPs: 1 },
  ports: { ports: 1000 },
  endpoints: { endpoints: 5000 },
  "affinity, policy Local": { sticky: true, local: true },
  "source-hash, weights": { scheduler: "source-hash", weighted: true },
  "100 Services, one pod": { services: 100, endpoints: 1, samePods: true },
  "50 namespaces, one address": { services: 50, apart: true, externalIPs: 1, sameAddresses: true },
};

/**
 * All pairs of {@link FEATURES}, named after both. If both have a number of the same thing, the larger one is
 * used.
 */
export const PAIRS: readonly (readonly [name: string, shape: TenantShape])[] = Object.entries(
  FEATURES,
).flatMap(([first, one], index) =>
  Object.entries(FEATURES)
    .slice(index + 1)
    .map(([second, other]) => [`${first} x ${second}`, tenantShape(one, other)] as const),
);

/** Returns a shape with all these numbers. */
export function tenantShape(...parts: readonly Partial<TenantShape>[]): TenantShape {
  const shape: Record<string, unknown> = { ...PLAIN };
  for (const part of parts) {
    for (const [name, value] of Object.entries(part)) {
      const known = shape[name];
      shape[name] = typeof value === "number" && typeof known === "number" ? Math.max(value, known) : value;
    }
  }
  return shape as unknown as TenantShape;
}

/** The things of which a Service has a number. */
export const COUNTS = [
  "ports",
  "endpoints",
  "externalIPs",
  "loadBalancerIPs",
  "sourceRanges",
  "portRanges",
] as const;

/** Factor by which the largest number shrinks in one step. */
const STEP = 0.8;

/**
 * Returns the largest shape of this kind that a budget accepts. Shrinks the largest number of a Service until
 * it fits.
 */
export function withinBudget(shape: TenantShape, fits: (shape: TenantShape) => boolean): TenantShape {
  let tried = shape;
  while (!fits(tried)) {
    const [largest] = [...COUNTS].sort((a, b) => tried[b] - tried[a]);
    if (largest === undefined || tried[largest] <= 2)
      throw new Error(`no size fits: ${JSON.stringify(tried)}`);
    tried = { ...tried, [largest]: Math.floor(tried[largest] * STEP) };
  }
  return tried;
}

/** A Service of a tenant with its slices. */
export interface TenantService {
  readonly service: StubObject;
  readonly slices: readonly StubObject[];
}

/** Endpoints of one slice, as many as the EndpointSlice controller puts into one. */
const SLICE = 100;

/**
 * Returns Services that are younger than all others, in a namespace or in several with this prefix.
 * @param first the number of the first Service. The number determines names and addresses
 */
export function tenantServices(shape: TenantShape, namespace: string, first = 0): readonly TenantService[] {
  const { apart, ports: portCount, protocol } = shape;
  const ports = times(portCount, (n): ApiPort => ({ port: 80 + n, protocol }));
  return times(shape.services, (n) => {
    const index = first + n;
    const name = `hostile-${index}`;
    const place = { namespace: apart ? `${namespace}-${index}` : namespace };
    const plain = apiService(name, { clusterIP: address(10, 100, index), ports, spec: specOf(shape, index) });
    const ingress = times(shape.loadBalancerIPs, (n) => ({
      ip: address(203, 0, index * shape.loadBalancerIPs + n),
    }));
    const service = {
      ...plain,
      metadata: {
        ...plain.metadata,
        ...place,
        creationTimestamp: "2026-11-22T00:00:00Z",
        annotations: annotationsOf(shape),
      },
      status: { loadBalancer: { ingress } },
    };
    return { service, slices: slicesOf(shape, name, index, ports).map((slice) => moved(slice, place)) };
  });
}

function specOf(shape: TenantShape, index: number): Readonly<Record<string, unknown>> {
  const first = shape.sameAddresses ? 0 : index * shape.externalIPs;
  const externalIPs = [
    ...times(shape.externalIPs, (n) => address(198, 18, first + n)),
    ...shape.addressesOfOthers,
  ];
  const isBalanced = shape.loadBalancerIPs > 0;
  // Every second address, because adjacent ones would be joined.
  const loadBalancerSourceRanges = times(shape.sourceRanges, (n) => `${address(11, 0, 2 * n)}/32`);
  const policy = shape.local ? { externalTrafficPolicy: "Local", internalTrafficPolicy: "Local" } : {};
  return {
    ...(isBalanced ? { type: "LoadBalancer" } : {}),
    ...(externalIPs.length > 0 ? { externalIPs } : {}),
    ...(shape.sourceRanges > 0 ? { loadBalancerSourceRanges } : {}),
    ...(shape.sticky ? { sessionAffinity: "ClientIP" } : {}),
    ...policy,
  };
}

function annotationsOf({
  portRanges,
  scheduler,
  resets,
  drains,
}: TenantShape): Readonly<Record<string, string>> {
  // With gaps, so that no two ranges can be joined.
  const ranges = times(portRanges, (n) => `tcp-80=${20_000 + 20 * n}-${20_009 + 20 * n}`);
  return {
    ...(portRanges > 0 ? { [PORT_RANGES_ANNOTATION]: ranges.join(",") } : {}),
    ...(scheduler === undefined ? {} : { [SCHEDULER_ANNOTATION]: scheduler }),
    ...(resets ? { [ON_REMOVED_ANNOTATION]: "reset" } : {}),
    ...(drains ? { [DRAIN_TIMEOUT_ANNOTATION]: "1s" } : {}),
  };
}

function slicesOf(shape: TenantShape, name: string, index: number, ports: readonly ApiPort[]): StubObject[] {
  const { endpoints, samePods, weighted, local } = shape;
  const first = samePods ? 0 : index * endpoints;
  const addresses = times(endpoints, (n) => address(10, 200, first + n));
  const count = weighted ? Math.max(2, Math.ceil(endpoints / SLICE)) : Math.ceil(endpoints / SLICE);
  return times(count, (n) => {
    const own = addresses.filter((_, at) => at % count === n);
    const { metadata, endpoints: entries, ...rest } = apiSlice(name, own, ports);
    const annotations = weighted ? { [WEIGHT_ANNOTATION]: String(1 + (n % 2) * 9) } : {};
    return {
      ...rest,
      metadata: { ...metadata, name: `${name}-${n}`, annotations },
      endpoints: (entries as readonly object[]).map((entry) =>
        local ? { ...entry, nodeName: "node-1" } : entry,
      ),
    };
  });
}

function moved(object: StubObject, place: { readonly namespace: string }): StubObject {
  return { ...object, metadata: { ...object.metadata, ...place } };
}

function times<T>(count: number, make: (n: number) => T): T[] {
  return Array.from({ length: count }, (_, n) => make(n));
}

function address(first: number, second: number, n: number): string {
  return [first, second + (n >> 16), (n >> 8) & 255, n & 255].join(".");
}

/** One change of an object. */
export type TenantChange = readonly [
  kind: "put" | "remove",
  resource: "services" | "endpointslices",
  object: StubObject,
];

/**
 * The changes that a tenant makes to its Services, in this order.
 * @param round a number that differs each time
 */
export const MOTIONS: Readonly<
  Record<string, (services: readonly TenantService[], round: number) => readonly TenantChange[]>
> = {
  made: (services) => services.flatMap((one) => [putService(one.service), ...one.slices.map(putSlice)]),
  "last endpoint unready": (services) =>
    services.flatMap(({ slices }) => slices.map((slice) => putSlice(conditioned(slice, UNREADY)))),
  "endpoints terminate": (services) =>
    services.flatMap(({ slices }) => slices.map((slice) => putSlice(conditioned(slice, TERMINATING)))),
  "endpoints ready": (services) => services.flatMap(({ slices }) => slices.map(putSlice)),
  "annotations that are not understood": (services, round) =>
    services.map(({ service }) =>
      putService(
        annotated(service, { [SCHEDULER_ANNOTATION]: `x${round}`, [PORT_RANGES_ANNOTATION]: `${round}` }),
      ),
    ),
  "affinity on or off": (services) => services.map(({ service }) => putService(turned(service))),
  "as at first": (services) => services.map(({ service }) => putService(service)),
  "deleted and made again": (services) =>
    services.flatMap(({ service, slices }) => [
      ["remove", "services", service],
      ...slices.map((slice) => ["remove", "endpointslices", slice] as const),
      putService(service),
      ...slices.map(putSlice),
    ]),
  deleted: (services) =>
    services.flatMap(({ service, slices }) => [
      ["remove", "services", service],
      ...slices.map((slice) => ["remove", "endpointslices", slice] as const),
    ]),
};

function putService(object: StubObject): TenantChange {
  return ["put", "services", object];
}

function putSlice(object: StubObject): TenantChange {
  return ["put", "endpointslices", object];
}

const UNREADY = { ready: false, serving: false, terminating: false };
const TERMINATING = { ready: false, serving: true, terminating: true };

function conditioned(slice: StubObject, conditions: typeof UNREADY): StubObject {
  return {
    ...slice,
    endpoints: (slice.endpoints as readonly object[]).map((entry) => ({ ...entry, conditions })),
  };
}

function annotated(object: StubObject, annotations: Readonly<Record<string, string>>): StubObject {
  return {
    ...object,
    metadata: { ...object.metadata, annotations: { ...object.metadata.annotations, ...annotations } },
  };
}

function turned(object: StubObject): StubObject {
  const spec = object.spec as { readonly sessionAffinity?: string };
  return {
    ...object,
    spec: { ...spec, sessionAffinity: spec.sessionAffinity === "ClientIP" ? "None" : "ClientIP" },
  };
}
