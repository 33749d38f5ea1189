import type { Decoded } from "../../../src/kube/decode/decode.ts";
import { decodeEndpointSlice } from "../../../src/kube/decode/endpoint-slice.ts";
import { decodeService } from "../../../src/kube/decode/service.ts";
import { ObjectCache } from "../../../src/model/object-cache.ts";
import { toTransaction } from "../../../src/nft/transaction.ts";
import { Renderer } from "../../../src/ruleset/renderer.ts";
import { HOSTILE as LARGEST } from "../../soak/hostile-services.ts";
import { apiService, apiSlice } from "../../support/api-objects.ts";
import { testNodeContext } from "../../support/build.ts";
import { HOSTILE } from "../../support/hostile-objects.ts";
import { StubApi } from "../../support/stub-api/stub-api.ts";
import { DaemonProcess } from "../daemon-process.ts";
import { atMost, type Figure, megabytes, time, type Work } from "../figures.ts";
import { follow } from "../follow.ts";
import { clearTables } from "../kernel.ts";
import { peakBytes } from "../memory.ts";
import { pause } from "../programs.ts";
import { tenantFigures } from "./tenants.ts";

/**
 * The kind of objects, their number, and the budget of CPU time to decode them, milliseconds. A Service can
 * have 20,000 source ranges and 2,000 addresses.
 */
const ROWS: readonly (readonly [what: string, count: number, budget?: number])[] = [
  ["source ranges", 10_000, 125],
  ["source ranges", 20_000, 250],
  ["source ranges of 100 ports", 20_000],
  ["external addresses", 1000],
  ["external addresses", 2000],
  ["ports", 5000],
  ["ports", 10_000],
  ["Services with one address", 5000],
  ["Services with one address", 10_000],
  ["EndpointSlices of one Service", 1000],
];

interface Taken {
  readonly decodeMs: number;
  readonly renderMs: number;
}

/** @param maxServiceElements unlimited if absent, so that everything is computed */
function taken(what: string, count: number, maxServiceElements = Number.POSITIVE_INFINITY): Taken {
  const { services, slices } = HOSTILE[what]?.(count) ?? { services: [], slices: [] };
  const start = cpuNow();
  const decoded = services.map((service) => usable(decodeService(service)));
  const decodedSlices = slices.map((slice) => usable(decodeEndpointSlice(slice)));
  const decodeMs = cpuNow() - start;
  const cache = new ObjectCache("node-1");
  const renderer = new Renderer(cache, testNodeContext({ maxServiceElements }));
  const begun = cpuNow();
  for (const service of decoded) cache.putService(service);
  for (const slice of decodedSlices) cache.putSlice(slice);
  renderer.update(cache.takeDirty());
  JSON.stringify(toTransaction(renderer.state.pending()));
  return { decodeMs, renderMs: cpuNow() - begun };
}

/** Returns the CPU time of this process, milliseconds. Other work on the machine does not increase it. */
function cpuNow(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

function usable<T>(decoded: Decoded<T>): T {
  if (decoded.kind !== "valid") throw new Error(`the object is ${decoded.kind}`);
  return decoded.value;
}

function objectFigures(): Figure[] {
  return ROWS.flatMap(([what, count, budget]): Figure[] => {
    const { decodeMs, renderMs } = taken(what, count);
    const name = `${count.toLocaleString("en")} ${what}`;
    return [
      {
        work: `${name}: decoded (CPU)`,
        value: time(decodeMs),
        ...(budget === undefined ? {} : { budget: atMost(decodeMs, budget, time(budget)) }),
      },
      { work: `${name}: rendered and written (CPU)`, value: time(renderMs) },
    ];
  });
}

/** Maximum time without answers because of one object, milliseconds. */
const BLOCKED_LIMIT = 200;

/** Time in which the rules of such an object are added or removed, milliseconds. */
const SETTLING = 5000;

/** Measures how long the daemon gives no answers when such objects are added and removed. */
async function blockedFigures(): Promise<Figure[]> {
  return await follow({ services: 100, endpoints: 10 }, [], async ({ api, daemon }) => {
    await pause(SETTLING);
    const figures: Figure[] = [];
    for (const [what, make] of Object.entries(LARGEST)) {
      const { services, slices } = make();
      const all = [
        ...services.map((one) => ["services", one] as const),
        ...slices.map((one) => ["endpointslices", one] as const),
      ];
      const waits: number[] = [];
      for (const change of ["put", "remove"] as const) {
        for (const [resource, object] of all) api.cluster[change](resource, object);
        waits.push(...(await daemon.waits(pause(SETTLING))));
      }
      const most = Math.max(...waits);
      figures.push({
        work: `${what}, coming and going: a request waits, at most`,
        value: time(most),
        budget: atMost(most, BLOCKED_LIMIT, time(BLOCKED_LIMIT)),
      });
    }
    return figures;
  });
}

/**
 * Measures a Service with 1.7 million elements beside one with three: the time until the latter is served,
 * and the memory.
 */
async function neighbourFigures(): Promise<Figure[]> {
  const ports = Array.from({ length: 100 }, (_, i) => ({ port: 1000 + i }));
  const externalIPs = Array.from({ length: 500 }, (_, i) => `198.18.${i >> 8}.${i & 255}`);
  const huge = apiService("huge", { clusterIP: "10.96.77.77", ports, spec: { externalIPs } });
  const annotations = { "nft-proxy.io/scheduler": "source-hash" };
  const pods = Array.from({ length: 1000 }, (_, i) => `10.244.${8 + (i >> 8)}.${i & 255}`);
  await clearTables();
  const api = await StubApi.start();
  api.cluster.put("services", { ...huge, metadata: { ...huge.metadata, annotations } });
  api.cluster.put("endpointslices", apiSlice("huge", pods, ports));
  api.cluster.put("services", apiService("neighbour", { clusterIP: "10.96.7.3" }));
  api.cluster.put("endpointslices", apiSlice("neighbour", ["10.244.2.12"]));
  const started = performance.now();
  const daemon = new DaemonProcess(api.url);
  try {
    await daemon.synced();
    const ms = performance.now() - started;
    const bytes = peakBytes(daemon.pid);
    return [
      {
        work: "start to synced beside a Service of 100 ports, 500 addresses, 1,000 endpoints, source-hash",
        value: time(ms),
        budget: atMost(ms, 5000, "5 s"),
        memory: daemon.memory.stop(),
      },
      { work: "the same: peak of node", value: megabytes(bytes), budget: atMost(bytes, 900e6, "900 MB") },
    ];
  } finally {
    daemon.memory.stop();
    await daemon.stop();
    await api.close();
  }
}

/**
 * Measures Services with 585 ports and slot tables. Each is within its own budget, but together they exceed
 * the shared budgets.
 */
async function manyFigures(): Promise<Figure[]> {
  const count = 40;
  const ports = Array.from({ length: 585 }, (_, i) => ({ port: 1 + i }));
  const figures: Figure[] = [];
  for (const [where, namespaceOf] of [
    ["one namespace", () => "shop"],
    ["a namespace each", (i: number) => `shop-${i}`],
  ] as const) {
    await clearTables();
    const api = await StubApi.start();
    for (let i = 0; i < count; i++) {
      const service = apiService(`many-${i}`, { clusterIP: `10.96.77.${i}`, ports });
      const slice = apiSlice(`many-${i}`, [`10.244.8.${2 * i}`, `10.244.8.${2 * i + 1}`], ports);
      const namespace = namespaceOf(i);
      const annotations = { "nft-proxy.io/scheduler": "source-hash" };
      api.cluster.put("services", { ...service, metadata: { ...service.metadata, namespace, annotations } });
      api.cluster.put("endpointslices", { ...slice, metadata: { ...slice.metadata, namespace } });
    }
    const started = performance.now();
    const daemon = new DaemonProcess(api.url);
    try {
      await daemon.synced();
      const ms = performance.now() - started;
      await pause(SETTLING);
      const memory = daemon.memory.stop();
      figures.push({
        work: `start to synced with ${count} Services of 585 ports by source-hash, in ${where}`,
        value: time(ms),
        budget: atMost(memory.together, 450e6, "450 MB"),
        memory,
      });
    } finally {
      daemon.memory.stop();
      await daemon.stop();
      await api.close();
    }
  }
  return figures;
}

/** Measures time by size for objects that a tenant may create, up to the API server's limits. */
export const hostile: Work = {
  name: "hostile",
  summary: "objects with tens of thousands of one thing, and the neighbour of a tenant with such objects",
  run: async () => [
    ...objectFigures(),
    ...(await blockedFigures()),
    ...(await neighbourFigures()),
    ...(await manyFigures()),
    ...(await tenantFigures()),
  ],
};
