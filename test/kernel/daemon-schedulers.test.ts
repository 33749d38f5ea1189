import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { townList } from "../support/stub-api/town.ts";

// Schedulers and weights with the built daemon, while annotations are added, changed and removed.

const ENDPOINTS = ["10.244.2.11", "10.244.2.12", "10.244.2.13"];
const CLUSTER_IP = "10.96.12.1";
const FLAGS = ["--iptables-sync-period=1s", "--iptables-min-sync-period=10ms"];

let lab: DaemonLab;
let daemon: RunningDaemon;
beforeAll(async () => {
  lab = await DaemonLab.create();
  for (const resource of ["nodes", "servicecidrs"] as const)
    lab.cluster.load(resource, townList("town", resource));
  putService({ "nft-proxy.io/scheduler": "source-hash" });
  putSlice({});
  daemon = lab.start(FLAGS);
  await lab.converged();
});
afterAll(() => lab?.close());

/** An annotated object as an API server sends it. */
function annotated<T extends { readonly metadata: object }>(
  object: T,
  annotations: Readonly<Record<string, string>>,
): T {
  const fields = Object.fromEntries(Object.keys(annotations).map((key) => [`f:${key}`, {}]));
  const managedFields = [
    {
      manager: "kubectl",
      operation: "Update",
      fieldsType: "FieldsV1",
      fieldsV1: { "f:metadata": { "f:annotations": fields } },
    },
  ];
  return { ...object, metadata: { ...object.metadata, annotations, managedFields } };
}

function putService(annotations: Readonly<Record<string, string>>): void {
  lab.cluster.put("services", annotated(apiService("web", { clusterIP: CLUSTER_IP }), annotations));
}

function putSlice(annotations: Readonly<Record<string, string>>, endpoints = ENDPOINTS): void {
  lab.cluster.put("endpointslices", annotated(apiSlice("web", endpoints), annotations));
}

/** Returns the verdict for connections to the Service, which is a jump to the chain that balances them. */
async function verdict(): Promise<string | undefined> {
  const sets = (await lab.kernel()).ip?.sets;
  const id = sets?.get("lists")?.elements.get(`${CLUSTER_IP} . tcp . 80`);
  return sets?.get("balancers")?.elements.get(id ?? "");
}

describe("an annotation for the scheduler", () => {
  test.each([
    ["round-robin", "goto round-robin-3"],
    ["flow-hash", "goto flow-hash-251"],
    ["random", "goto balance-3"],
    ["source-hash", "goto source-hash-251"],
  ])("makes the kernel balance by %s", async (scheduler, expected) => {
    putService({ "nft-proxy.io/scheduler": scheduler });
    await expect.poll(verdict).toBe(expected);
    await lab.converged();
  });

  test("that names no scheduler is reported by an Event, and changes nothing else", async () => {
    putService({ "nft-proxy.io/scheduler": "fastest" });
    await expect.poll(verdict).toBe("goto balance-3");
    const events = () => lab.api.events.filter(({ reason }) => reason === "UnknownScheduler");
    await expect
      .poll(events)
      .toMatchObject([{ regarding: { kind: "Service", namespace: "shop", name: "web" } }]);
  });
});

test("a client with source-hash keeps its endpoint when another one is removed, and a restart sends nothing", async () => {
  putService({ "nft-proxy.io/scheduler": "source-hash" });
  await expect.poll(verdict).toBe("goto source-hash-251");
  const endpointOf = async (from: "pod1" | "pod2" | "pod3") => {
    const probe = { id: "only", from, to: CLUSTER_IP, port: 80, proto: "tcp", n: 5 } as const;
    return (await lab.lab.probe([probe])).get("only")?.endpoints;
  };
  const before = await endpointOf("pod1");
  expect(before).toHaveLength(1);
  const others = ENDPOINTS.filter((address) => `${address} 8080` !== before?.[0]);
  putSlice(
    {},
    ENDPOINTS.filter((address) => address !== others[0]),
  );
  await lab.converged();
  expect(await endpointOf("pod1")).toEqual(before);
  await daemon.stop();
  daemon = lab.start(FLAGS);
  expect(await daemon.saying("full sync")).toMatchObject({ sent: 0 });
  expect(await endpointOf("pod1")).toEqual(before);
});

test("a drained EndpointSlice gets no connections once another one is ready", async () => {
  putSlice({ "nft-proxy.io/weight": "0" });
  const other = apiSlice("web", ["10.244.3.11"]);
  lab.cluster.put("endpointslices", { ...other, metadata: { ...other.metadata, name: "web-2" } });
  await expect.poll(verdict).toBe("goto balance-1");
  await lab.converged();
  const probe = { id: "only", from: "pod1", to: CLUSTER_IP, port: 80, proto: "tcp", n: 20 } as const;
  expect((await lab.lab.probe([probe])).get("only")?.endpoints).toEqual(["10.244.3.11 8080"]);
});
