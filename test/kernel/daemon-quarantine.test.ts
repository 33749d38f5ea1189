import { afterAll, beforeAll, expect, test } from "vitest";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { townList } from "../support/stub-api/town.ts";
import { wrappedNft } from "../support/wrapped-nft.ts";

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

function put(name: string, clusterIP: string): void {
  lab.cluster.put("services", apiService(name, { clusterIP }));
  lab.cluster.put("endpointslices", apiSlice(name, ["10.244.1.11", "10.244.2.12"]));
}

/** The address of a Service whose transactions cause nft to be killed. */
const DEADLY = "10.96.88.88";

/** An nft that refuses transactions that contain an address, as long as a file of that name exists. */
async function refusingNft(
  address: string,
): Promise<{ readonly path: string; readonly accept: () => Promise<void> }> {
  const flag = await lab.file(`refuse-${address}`, "");
  const path = await wrappedNft(
    lab,
    `nft-refuses-${address}`,
    `case "$*" in *-f*)
       input=$(cat)
       case "$input" in *${DEADLY}*) kill -9 $$;; esac
       case "$input" in *${address}*)
         [ -e ${flag} ] && echo "internal:0:0-0: Error: Could not process rule: Invalid argument" >&2 && exit 1;;
       esac
       printf '%s' "$input" | nft "$@"; exit;;
     esac`,
  );
  return { path, accept: async () => void (await lab.lab.exec(["rm", flag])) };
}

test("a Service that the kernel refuses among 1,000 valid ones is quarantined and reported, and is programmed once it is accepted", async () => {
  for (let n = 0; n < 999; n++) put(`good-${n}`, `10.96.${20 + (n >> 8)}.${n & 255}`);
  const good = lab.wantedText();
  put("bad", "10.96.66.66");
  const { path, accept } = await refusingNft("10.96.66.66");
  daemon = lab.start([`--nft-path=${path}`]);
  await lab.converging(good);
  expect(await daemon.saying("service port quarantined: the kernel refuses its rules")).toMatchObject({
    level: "error",
    servicePort: "ip shop/bad:tcp-80/tcp",
  });
  expect(await lab.metric("nft_proxy_quarantined_service_ports")).toBe(1);
  const events = () => lab.api.events.filter(({ reason }) => reason === "ServicePortQuarantined");
  await expect
    .poll(events)
    .toMatchObject([{ regarding: { kind: "Service", namespace: "shop", name: "bad" } }]);
  expect((await lab.get(10256, "/healthz")).status).toBe(200);

  put("late", "10.96.7.2");
  await expect.poll(() => lab.kernelText()).toContain("10.96.7.2 . tcp . 80");
  await accept();
  lab.cluster.put("endpointslices", apiSlice("bad", ["10.244.2.13"]));
  await lab.converged();
  await daemon.saying("service port no longer quarantined");
  expect(await lab.metric("nft_proxy_quarantined_service_ports")).toBe(0);
});

test("a Service over its budget is quarantined by name while others are served, and is served once it is smaller", async () => {
  const ports = Array.from({ length: 100 }, (_, i) => ({ port: 1000 + i }));
  const externalIPs = Array.from({ length: 500 }, (_, i) => `198.18.${i >> 8}.${i & 255}`);
  const endpoints = Array.from({ length: 1000 }, (_, i) => `10.244.${8 + (i >> 8)}.${i & 255}`);
  const huge = (count: number) => {
    const service = apiService("huge", {
      clusterIP: "10.96.77.77",
      ports: ports.slice(0, count),
      spec: { externalIPs },
    });
    return {
      ...service,
      metadata: { ...service.metadata, annotations: { "nft-proxy.io/scheduler": "source-hash" } },
    };
  };
  lab.cluster.put("endpointslices", apiSlice("huge", endpoints, ports));
  lab.cluster.put("services", huge(100));
  const reason =
    "a Service can have 150000 elements in the kernel (--max-service-elements), and this one has 1688301";
  expect(await daemon.saying(`service port quarantined: ${reason}`)).toMatchObject({
    level: "error",
    servicePort: "shop/huge (100 service ports)",
  });
  expect(await lab.metric("nft_proxy_quarantined_service_ports")).toBe(100);
  const events = () =>
    lab.api.events.filter(({ regarding }) => (regarding as { readonly name?: string }).name === "huge");
  await expect.poll(events).toMatchObject([{ reason: "ServicePortQuarantined" }]);

  put("neighbour", "10.96.7.3");
  await expect.poll(() => lab.kernelText()).toContain("10.96.7.3 . tcp . 80");
  expect(await lab.kernelText()).not.toContain("10.96.77.77");
  lab.cluster.put("services", huge(2));
  await lab.converged();
  expect(await lab.metric("nft_proxy_quarantined_service_ports")).toBe(0);
});

test("a Service that gets nft killed each time is quarantined by name, and all others are programmed", async () => {
  put("deadly", DEADLY);
  put("alive", "10.96.7.4");
  expect(
    await daemon.saying("service port quarantined: nft fails on its rules: nft was killed (SIGKILL)"),
  ).toMatchObject({ level: "error", servicePort: "ip shop/deadly:tcp-80/tcp" });
  await expect.poll(() => lab.kernelText()).toContain("10.96.7.4 . tcp . 80");
  expect(await lab.kernelText()).not.toContain(DEADLY);
  const events = () =>
    lab.api.events.filter(({ regarding }) => (regarding as { readonly name?: string }).name === "deadly");
  await expect.poll(events).toMatchObject([{ reason: "ServicePortQuarantined" }]);
  put("later", "10.96.7.5");
  await expect.poll(() => lab.kernelText()).toContain("10.96.7.5 . tcp . 80");
});
