import { afterAll, beforeAll, expect, test } from "vitest";
import { systemClock } from "../../../../src/kernel/system-clock.ts";
import { ApiClient } from "../../../../src/kube/client/client.ts";
import { loadConnection } from "../../../../src/kube/client/load-connection.ts";
import { listUnservedServices } from "../../../../src/kube/reflector/list-once.ts";
import { StubApi } from "../../../support/stub-api/stub-api.ts";
import { loadTown } from "../../../support/stub-api/town.ts";

let api: StubApi;
let client: ApiClient;
beforeAll(async () => {
  api = await StubApi.start();
  loadTown(api.cluster);
  client = new ApiClient({
    userAgent: "test",
    connect: () => loadConnection({ kubeconfig: "", master: api.url, env: {} }),
  });
});
afterAll(async () => {
  client.close();
  await api.close();
});

test("listUnservedServices gives the Services of other proxies, headless ones and ExternalNames", async () => {
  const { ignored, problem } = await listUnservedServices(client, systemClock);
  expect(problem).toBeUndefined();
  expect(ignored.map(({ name, why }) => `${name} ${why}`).sort()).toEqual([
    "edge/not-ours other-proxy",
    "shop/external-name external-name",
    "shop/frontend-headless headless",
  ]);
});

test("listUnservedServices gives the problem where the API server does not answer", async () => {
  api.addFault({ resource: "services", fault: { kind: "status", status: 403 } });
  const { ignored, problem } = await listUnservedServices(client, systemClock);
  expect(ignored).toEqual([]);
  expect(problem).toContain("403");
});
