import { afterEach, beforeEach, expect, test } from "vitest";
import { ApiClient } from "../../../../src/kube/client/client.ts";
import { apiDecoders } from "../../../../src/kube/decode/decoders.ts";
import { clusterSource } from "../../../../src/kube/reflector/cluster-source.ts";
import {
  type ObjectSource,
  RESOURCE_NAMES,
  type ResourceName,
  type SourceHandler,
} from "../../../../src/kube/source.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { memoryLogger } from "../../../support/memory-logger.ts";
import { StubApi } from "../../../support/stub-api/stub-api.ts";
import { stubClient } from "../../../support/stub-api/stub-client.ts";
import { loadTown, replayTown } from "../../../support/stub-api/town.ts";

let api: StubApi;
let client: ApiClient;
let source: ObjectSource;
let clock: ManualClock;

async function startApi(): Promise<void> {
  api = await StubApi.start();
  client = stubClient(api);
  clock = new ManualClock();
}

async function stopAll(): Promise<void> {
  source.stop();
  client.close();
  await api.close();
}

beforeEach(startApi);
afterEach(stopAll);

/** Follows the stub, with the real decoders. Gives what a consumer has. */
function follow(random = () => 0.5, nodes = 0): Readonly<Record<ResourceName, Map<string, unknown>>> {
  const objects = {
    services: new Map(),
    endpointslices: new Map(),
    nodes: new Map(),
    servicecidrs: new Map(),
  };
  const handler = <T>(resource: ResourceName): SourceHandler<T> => ({
    onUpsert: (key, object) => void objects[resource].set(key, object),
    onDelete: (key) => void objects[resource].delete(key),
    onInvalid: () => {},
    onSynced: () => {},
  });
  source = clusterSource({
    client,
    nodeName: "node-1",
    decoders: apiDecoders(() => {}),
    handlers: {
      services: handler("services"),
      endpointslices: handler("endpointslices"),
      nodes: handler("nodes"),
      servicecidrs: handler("servicecidrs"),
    },
    clock,
    random,
    nodes: () => nodes,
    logger: memoryLogger(),
  });
  source.start();
  return objects;
}

/** Moves the clock, in steps between which requests are answered or refused. */
async function pass(milliseconds: number, step: number): Promise<void> {
  for (let passed = 0; passed < milliseconds; passed += step) {
    await new Promise((resolve) => setTimeout(resolve, 5));
    clock.advance(step);
  }
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve));
}

const isWatched = () => RESOURCE_NAMES.every((resource) => api.cluster.watches(resource).length === 1);

test("a cluster source ends with the objects of the town after the recorded changes, whether lists are compressed or not", async () => {
  loadTown(api.cluster, "town-after");
  const expected = follow();
  await until(isWatched);
  await stopAll();

  await startApi();
  api.compresses = true;
  loadTown(api.cluster);
  const objects = follow();
  await until(isWatched);
  expect(objects).not.toEqual(expected);
  replayTown(api.cluster);
  await until(
    () => source.states().nodes.events.bookmark === 1 && source.states().services.events.bookmark === 1,
  );
  await until(() => source.states().endpointslices.events.bookmark === 2);
  expect(objects).toEqual(expected);
  expect(objects.services.size).toBeGreaterThan(30);
  expect([...objects.nodes.keys()]).toEqual(["node-1"]);
});

test.each([
  ["follows every resource again within 2 s after an outage of 20 s", 20_000, 5_000, false, 2_200],
  ["lists within 25 s more if its versions have expired meanwhile", 20_000, 5_000, true, 27_200],
  ["of a few nodes lists within 2 s after an outage of 3 minutes", 180_000, 3, true, 2_000],
])("a cluster source %s", async (_title, outage, nodes, expires, within) => {
  loadTown(api.cluster);
  const objects = follow(() => 0.999, nodes);
  await until(isWatched);
  const { port, cluster } = api;
  await api.close();
  await pass(outage, 500);
  if (expires) for (const resource of RESOURCE_NAMES) cluster.compact(resource);
  const [gone] = cluster.objects("services");
  if (gone !== undefined) cluster.remove("services", gone);
  const before = objects.services.size;

  api = await StubApi.start({ port, cluster });
  await pass(within, 100);
  await until(isWatched);
  await until(() => objects.services.size === before - 1);
});

test("a cluster source that lost its server asks once at a time, at most 30 times in a minute", async () => {
  let attempts = 0;
  const connection = {
    name: "",
    server: new URL(api.url),
    credentials: async () => ({}),
    isCurrent: async () => true,
  };
  client = new ApiClient({
    userAgent: "nft-proxy/test",
    connect: async () => connection,
    onRequest: () => {
      attempts += 1;
    },
  });
  let random = 0;
  follow(() => {
    random = (random + 0.618) % 1;
    return random;
  });
  await until(isWatched);
  await api.close();
  attempts = 0;
  await pass(60_000, 250);
  expect(attempts).toBeGreaterThan(15);
  expect(attempts).toBeLessThanOrEqual(30);
  api = await StubApi.start();
});

test("a cluster source is synced without ServiceCIDRs, and stop() ends everything", async () => {
  api.cluster.absent.add("servicecidrs");
  follow();
  await until(() => RESOURCE_NAMES.every((resource) => source.states()[resource].synced));
  await until(() => api.cluster.watches("nodes").length + api.cluster.watches("endpointslices").length === 2);
  expect(source.states().servicecidrs).toMatchObject({ absent: true, failure: "" });
  source.stop();
  await until(() => RESOURCE_NAMES.every((resource) => api.cluster.watches(resource).length === 0));
  expect(clock.timers).toBe(0);
});
