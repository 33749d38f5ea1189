import { RESOURCE_NAMES } from "../../src/kube/source.ts";
import { apiService, apiSlice } from "../support/api-objects.ts";
import type { StubCluster } from "../support/stub-api/stub-cluster.ts";
import { putEndpoints, TARGETS } from "./targets.ts";

/** Changes of objects, a second. */
const RATE = 100;
const PERIOD = 20;
const SERVICES = 300;
/** One change in so many is one of a Service with connections. */
const TARGET_EVERY = 25;
/** How long the server can answer watches from an older version, milliseconds. */
const HISTORY = 60_000;

const STICKY = {
  sessionAffinity: "ClientIP",
  sessionAffinityConfig: { clientIP: { timeoutSeconds: 10_800 } },
};

/** Changes the objects of a cluster, {@link RATE} times a second while it is not paused. */
export class Churn {
  /** How many changes there have been. */
  changes = 0;
  readonly #cluster: StubCluster;
  readonly #random: () => number;
  #timer: NodeJS.Timeout | undefined;
  #compactions: NodeJS.Timeout;

  constructor(cluster: StubCluster, random: () => number) {
    this.#cluster = cluster;
    this.#random = random;
    let older = cluster.version;
    this.#compactions = setInterval(() => {
      for (const resource of RESOURCE_NAMES) cluster.collection(resource).compact(older);
      older = cluster.version;
    }, HISTORY);
  }

  /** Begins, or goes on. */
  start(): void {
    this.pause();
    let last = performance.now();
    this.#timer = setInterval(() => {
      for (; last + 1000 / RATE <= performance.now(); last += 1000 / RATE) this.#change();
    }, PERIOD);
  }

  /** Changes nothing until it is started again. */
  pause(): void {
    clearInterval(this.#timer);
  }

  /** Ends it. */
  stop(): void {
    this.pause();
    clearInterval(this.#compactions);
  }

  /** Gives all Services what they had at first, so that memory can be compared. */
  reset(): void {
    for (let index = 0; index < SERVICES; index++) {
      this.#putService(index, {}, 80);
      this.#putSlice(index, [1, 2, 3, 4]);
    }
    for (const target of TARGETS) putEndpoints(this.#cluster, target, () => 0.5);
  }

  #change(): void {
    this.changes++;
    const random = this.#random;
    if (this.changes % TARGET_EVERY === 0) {
      const target = TARGETS[(this.changes / TARGET_EVERY) % TARGETS.length];
      if (target !== undefined) putEndpoints(this.#cluster, target, random);
      return;
    }
    const index = Math.floor(random() * SERVICES);
    const draw = random();
    if (draw < 0.8) {
      this.#putSlice(
        index,
        Array.from({ length: Math.floor(random() * 8) }, () => Math.floor(random() * 250) + 1),
      );
    } else if (draw < 0.87) {
      const known = this.#cluster.collection("services").objects.get(`shop/${nameOf(index)}`);
      if (known !== undefined) this.#cluster.remove("services", known);
    } else {
      this.#putService(index, random() < 0.3 ? STICKY : {}, 80 + Math.floor(random() * 3));
    }
  }

  #putService(index: number, spec: Readonly<Record<string, unknown>>, port: number): void {
    const nodePort = index % 4 === 0 ? { nodePort: 31_000 + index } : {};
    const protocol = index % 5 === 0 ? "UDP" : "TCP";
    const clusterIP = isIPv6(index)
      ? `fd00:10:96::${(0xc000 + index).toString(16)}`
      : `10.97.${index >> 8}.${index & 255}`;
    this.#cluster.put(
      "services",
      apiService(nameOf(index), { clusterIP, ports: [{ port, protocol, ...nodePort }], spec }),
    );
  }

  /** Endpoints that no machine has: nobody connects to these Services. */
  #putSlice(index: number, suffixes: readonly number[]): void {
    const prefix = isIPv6(index) ? "fd00:244:9::" : "10.244.9.";
    const addresses = [...new Set(suffixes)].map((suffix) => `${prefix}${suffix}`);
    const protocol = index % 5 === 0 ? "UDP" : "TCP";
    const ports = [80, 81, 82].map((port) => ({ port, protocol }) as const);
    const addressType = isIPv6(index) ? "IPv6" : "IPv4";
    this.#cluster.put("endpointslices", { ...apiSlice(nameOf(index), addresses, ports), addressType });
  }
}

function nameOf(index: number): string {
  return `churn-${index}`;
}

function isIPv6(index: number): boolean {
  return index % 3 === 0;
}
