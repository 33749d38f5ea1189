import { afterAll, beforeAll, expect, test } from "vitest";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { townList } from "../support/stub-api/town.ts";

let lab: DaemonLab;
let daemon: RunningDaemon;
beforeAll(async () => {
  lab = await DaemonLab.create();
  await lab.reach("192.0.2.2");
  for (const resource of ["nodes", "servicecidrs"] as const)
    lab.cluster.load(resource, townList("town", resource));
});
afterAll(async () => {
  await daemon?.stop();
  await lab?.close();
});

/** Adds a Service created in that year, with some ports and a table of 251 slots for each. */
function put(name: string, year: number, ports: number): void {
  const numbers = Array.from({ length: ports }, (_, i) => ({ port: 1000 + i }));
  const { metadata, ...rest } = apiService(name, { clusterIP: addressOf(year), ports: numbers });
  const annotations = { "nft-proxy.io/scheduler": "source-hash" };
  const creationTimestamp = `${year}-01-01T00:00:00Z`;
  lab.cluster.put("services", { ...rest, metadata: { ...metadata, annotations, creationTimestamp } });
  lab.cluster.put("endpointslices", apiSlice(name, ["10.244.1.11", "10.244.2.12"], numbers));
}

const addressOf = (year: number) => `10.96.20.${year - 2000}`;

test("the newest Services of a namespace over its budget are quarantined, until older ones are deleted", async () => {
  put("old", 2001, 1);
  for (const year of [2004, 2003, 2005, 2002]) put(`huge-${year}`, year, 20);
  put("small", 2006, 1);
  // Each of the 20 ports has 251 slots, a frontend, a balancer and a hairpin. With the cluster IP these are
  // 5,081 elements.
  daemon = lab.start(["--max-namespace-elements=12000"]);
  const has = (year: number) => expect.stringContaining(`${addressOf(year)} . tcp . 1000`);
  await expect.poll(() => lab.kernelText(), { timeout: 20_000 }).toEqual(has(2006));
  const reason =
    "the Services of a namespace can have 12000 elements in the kernel (--max-namespace-elements), and this one has 5081, 3498 more than older ones leave";
  expect(await daemon.saying(`service port quarantined: ${reason}`)).toMatchObject({
    level: "error",
    servicePort: expect.stringMatching(/^shop\/huge-200[45] \(20 service ports\)$/),
  });
  const text = await lab.kernelText();
  for (const year of [2001, 2002, 2003]) expect(text).toEqual(has(year));
  for (const year of [2004, 2005]) expect(text).not.toContain(addressOf(year));
  const quarantined = () => lab.metric("nft_proxy_quarantined_service_ports");
  await expect.poll(quarantined).toBe(40);
  const regarding = () =>
    lab.api.events.flatMap(({ reason: of, regarding: whom }) =>
      of === "ServicePortQuarantined" ? [whom] : [],
    );
  await expect.poll(regarding).toMatchObject([{ name: "huge-2004" }, { name: "huge-2005" }]);

  lab.cluster.remove("services", { metadata: { namespace: "shop", name: "huge-2002" } });
  await expect.poll(() => lab.kernelText()).toEqual(has(2004));
  expect(await lab.kernelText()).not.toContain(addressOf(2005));
  await expect.poll(quarantined).toBe(20);
});
