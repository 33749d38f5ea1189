import { afterEach, beforeEach, expect, test } from "vitest";
import { ApiClient } from "../../../../src/kube/client/client.ts";
import { loadConnection } from "../../../../src/kube/client/load-connection.ts";
import { apiDecoders } from "../../../../src/kube/decode/decoders.ts";
import { unservedAmong } from "../../../../src/kube/decode/ignored-service.ts";
import { listOnce } from "../../../../src/kube/reflector/list-once.ts";
import type { ListedObjects } from "../../../../src/kube/source.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { StubApi } from "../../../support/stub-api/stub-api.ts";
import { loadTown } from "../../../support/stub-api/town.ts";

let api: StubApi;
let client: ApiClient;
let clock: ManualClock;
let invalid: string[];

beforeEach(async () => {
  api = await StubApi.start();
  clock = new ManualClock();
  invalid = [];
  client = new ApiClient({
    userAgent: "nft-proxy/test",
    connect: () => loadConnection({ kubeconfig: "", master: api.url, env: {} }),
  });
  loadTown(api.cluster);
});

afterEach(async () => {
  client.close();
  await api.close();
});

function list(onService?: (service: unknown) => void): Promise<ListedObjects> {
  return listOnce({
    client,
    server: "https://stub",
    nodeName: "node-1",
    decoders: apiDecoders(() => {}),
    clock,
    onInvalid: (object, reason) => invalid.push(`${object}: ${reason}`),
    ...(onService === undefined ? {} : { onService }),
  });
}

test("listOnce lists every resource once, and watches nothing", async () => {
  const { services, endpointSlices, nodes, serviceCIDRs } = await list();
  expect([services.length, endpointSlices.length, serviceCIDRs.length]).toEqual([36, 47, 1]);
  expect(nodes.map(({ name }) => name)).toEqual(["node-1"]);
  expect(api.requests.filter(({ query }) => query.watch !== undefined)).toEqual([]);
});

test("listOnce names an object that cannot be used, and gives the others", async () => {
  api.cluster.put("services", {
    apiVersion: "v1",
    kind: "Service",
    metadata: { namespace: "shop", name: "bad" },
    spec: { clusterIP: "10.96.0.999", ports: [{ port: 80 }] },
  });
  expect((await list()).services).toHaveLength(36);
  expect(invalid).toEqual([expect.stringContaining("Service shop/bad: spec.clusterIP")]);
});

test("listOnce gives no ServiceCIDRs where they are not served", async () => {
  api.cluster.absent.add("servicecidrs");
  expect((await list()).serviceCIDRs).toEqual([]);
});

test("listOnce lists Services without the field selector where the server rejects it, and excludes headless ones itself", async () => {
  api.addFault({ resource: "services", fault: { kind: "status", status: 400 } });
  expect((await list()).services).toHaveLength(36);
  const asked = api.requests.filter(({ resource }) => resource === "services");
  expect(asked.map(({ query }) => query.fieldSelector)).toEqual(["spec.clusterIP!=None", undefined]);
});

test.each([
  [403, "must be allowed to list services"],
  [500, "is this the right cluster"],
])("listOnce gives up with a hint at the first list that fails (%s)", async (status, hint) => {
  api.addFault({ resource: "services", fault: { kind: "status", status } });
  await expect(list()).rejects.toMatchObject({
    code: "API_UNAVAILABLE",
    hint: expect.stringContaining(hint),
  });
});

test("listOnce gives up after 15 s of silence", async () => {
  api.addFault({ resource: "nodes", fault: { kind: "hang" } });
  const listed = expect(list()).rejects.toMatchObject({
    message: "cannot list nodes at https://stub: nothing received for 15000 ms",
  });
  await expect.poll(() => api.requests.length).toBe(1);
  clock.advance(15_000);
  await listed;
});

test("listOnce lists unmanaged Services only when asked to", async () => {
  await list();
  const selectors = () =>
    api.requests.filter(({ resource }) => resource === "services").map(({ query }) => query.labelSelector);
  expect(selectors()).toEqual([expect.stringContaining("service-proxy-name")]);
  const all: unknown[] = [];
  const { services } = await list((service) => all.push(service));
  expect(selectors()).toHaveLength(2);
  expect(selectors()[1]).toBeUndefined();
  expect(services).toHaveLength(36);
  const names = unservedAmong(all).ignored.map(({ name }) => name);
  expect(names.sort()).toEqual(["edge/not-ours", "shop/external-name", "shop/frontend-headless"]);
});
