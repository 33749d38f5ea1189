import { apiService, apiSlice } from "./api-objects.ts";
import type { StubObject } from "./stub-api/selectors.ts";

/** API objects with a large number of one thing. */
export interface HostileObjects {
  readonly services: readonly StubObject[];
  readonly slices: readonly StubObject[];
}

const PODS = ["10.244.1.1", "10.244.2.1"];
const BALANCER = { type: "LoadBalancer" };

/** Objects that an API server accepts from one tenant, by the thing of which they have a given number. */
export const HOSTILE: Readonly<Record<string, (count: number) => HostileObjects>> = {
  "source ranges": (count) => oneService({ ...BALANCER, loadBalancerSourceRanges: upTo(count, hostRange) }),
  "source ranges of 100 ports": (count) =>
    oneService({ ...BALANCER, loadBalancerSourceRanges: upTo(count, hostRange) }, 100),
  "source ranges that are none": (count) =>
    oneService({ ...BALANCER, loadBalancerSourceRanges: upTo(count, (i) => `${addressOf(20, i)}/x`) }),
  "external addresses": (count) => oneService({ externalIPs: upTo(count, (i) => addressOf(20, i)) }),
  "addresses of the other family": (count) =>
    oneService({ externalIPs: upTo(count, (i) => `fd00::1:${i.toString(16)}`) }),
  "load balancer addresses": (count) =>
    oneService(
      BALANCER,
      1,
      upTo(count, (i) => addressOf(30, i)),
    ),
  ports: (count) => oneService({}, count),
  "Services with one address": (count) => ({
    services: upTo(count, (i) =>
      apiService(`web-${i}`, { clusterIP: addressOf(10, i), spec: { externalIPs: ["20.0.0.1"] } }),
    ),
    slices: upTo(count, (i) => apiSlice(`web-${i}`, PODS)),
  }),
  "Services with one port range at one address": (count) => ({
    services: upTo(count, (i) => ranged(`web-${i}`, addressOf(10, i), "1-65535")),
    slices: upTo(count, (i) => apiSlice(`web-${i}`, PODS)),
  }),
  "Services with port ranges side by side at one address": (count) => ({
    services: upTo(count, (i) => ranged(`web-${i}`, addressOf(10, i), `${10 * i + 1}-${10 * i + 5}`)),
    slices: upTo(count, (i) => apiSlice(`web-${i}`, PODS)),
  }),
  "explicit ports amid a range": (count) => ({
    services: [
      ranged("web", "10.96.0.1", "1-65535"),
      ...upTo(count, (i) =>
        apiService(`web-${i}`, {
          clusterIP: addressOf(10, i),
          ports: [{ port: 2 * i + 1 }],
          spec: { externalIPs: ["20.0.0.1"] },
        }),
      ),
    ],
    slices: [apiSlice("web", PODS)],
  }),
  "drained endpoints": (count) => manySlices(1, count, { "nft-proxy.io/weight": "0" }),
  "EndpointSlices of one Service": (count) => manySlices(count, 2),
  "ports, each in an EndpointSlice of its own": (count) => {
    const ports = upTo(count, (i) => ({ name: `p${i}`, port: 1 + i }));
    const slices = ports.map((port) => {
      const slice = apiSlice("web", PODS, [port]);
      return { ...slice, metadata: { ...slice.metadata, name: `web-${port.name}` } };
    });
    return { services: [apiService("web", { clusterIP: "10.96.0.1", ports })], slices };
  },
};

/** The names of {@link HOSTILE}. */
export const HOSTILE_NAMES: readonly string[] = Object.keys(HOSTILE);

function oneService(
  spec: Readonly<Record<string, unknown>>,
  portCount = 1,
  ingress = ["30.0.0.1"],
): HostileObjects {
  const ports = upTo(portCount, (i) => ({ port: 1 + i }));
  const service = apiService("web", { clusterIP: "10.96.0.1", ports, spec });
  const status = { loadBalancer: { ingress: ingress.map((ip) => ({ ip })) } };
  return { services: [{ ...service, status }], slices: [apiSlice("web", PODS, ports)] };
}

/** Returns a Service with a port range at an address that it shares with others. */
function ranged(name: string, clusterIP: string, range: string): StubObject {
  const service = apiService(name, { clusterIP, spec: { externalIPs: ["20.0.0.1"] } });
  const annotations = { "nft-proxy.io/port-ranges": `tcp-80=${range}` };
  return { ...service, metadata: { ...service.metadata, annotations } };
}

function manySlices(count: number, endpoints: number, annotations = {}): HostileObjects {
  const slices = upTo(count, (i) => {
    const slice = apiSlice(
      "web",
      upTo(endpoints, (j) => addressOf(10, i * endpoints + j)),
    );
    return { ...slice, metadata: { ...slice.metadata, name: `web-${i}`, annotations } };
  });
  return { services: [apiService("web", { clusterIP: "10.96.0.1" })], slices };
}

function upTo<T>(count: number, make: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => make(index));
}

/** Every second address, so that no two ranges can be joined. */
function hostRange(index: number): string {
  return `${addressOf(20, 2 * index)}/32`;
}

function addressOf(first: number, index: number): string {
  return [first, 1 + (index >> 16), (index >> 8) & 255, index & 255].join(".");
}
