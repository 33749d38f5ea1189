import { afterAll, beforeAll, expect, test } from "vitest";
import type { RefusedDestination } from "../../src/inspect/refusals/refused-destinations.ts";
import { apiService } from "../support/api-objects.ts";
import { bundle } from "../support/command.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import { schemaErrors } from "../support/output-schema.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { loadTown } from "../support/stub-api/town.ts";

let lab: DaemonLab;
let socket: string;
beforeAll(async () => {
  lab = await DaemonLab.create();
  loadTown(lab.cluster);
  lab.cluster.put("services", apiService("none", { clusterIP: "10.96.7.9" }));
  socket = `--daemon-socket=${await lab.file("placeholder", "")}.d/daemon.sock`;
});
afterAll(() => lab?.close());

const PATIENCE = { timeout: 60_000 } as const;

/** Starts a daemon and waits until it has programmed the kernel and answers on its socket. */
async function started(): Promise<RunningDaemon> {
  const daemon = lab.start([socket]);
  await daemon.saying("server listening", 3);
  await lab.converged();
  return daemon;
}

/** Runs `refusals` beside the daemon, which reads the kernel's set for it. */
async function refusals(...flags: readonly string[]): Promise<string> {
  const { stdout, stderr } = await lab.lab.exec([process.execPath, bundle, "refusals", socket, ...flags]);
  expect(stderr).toBe("");
  return stdout;
}

/** Makes two connections that are refused. */
const connect = (from: "pod1" | "pod2", to = "10.96.7.9") =>
  lab.lab.probe([{ id: "only", from, to, port: 80, proto: "tcp", n: 1 }]);

test("refusals fails if refusals are not recorded", async () => {
  const flags = [socket, `--master=${lab.master}`, "--hostname-override=node-1"];
  const { exitCode, stdout, stderr } = await lab.lab.exec([process.execPath, bundle, "refusals", ...flags]);
  expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: "" });
  expect(stderr).toContain("refusals are not recorded on this host: the kernel has no table of nft-proxy");
});

test("the daemon counts refused packets, shows them on its status page, and sends one Event", async () => {
  const daemon = await started();
  expect(await refusals()).toBe("nothing was refused within the last hour");
  expect(await refusals("--service=shop/none")).toBe("no matching refusal within the last hour");
  const page = async () => (await lab.get(10249, "/")).body;
  expect(await page()).toContain("<h2>Refusals</h2>");
  await connect("pod1");
  expect(await refusals("--service=shop/none")).toMatch(
    /^shop\/none port tcp-80 at 10\.96\.7\.9:80\/tcp: 2 packets of 1 client, first \d+s ago, last \d+s ago\n/,
  );
  expect(await refusals("--namespace=shop")).toContain("shop/none port tcp-80");
  expect(await refusals("--namespace=edge")).not.toContain("shop/none");
  expect(await lab.metric("nft_proxy_refused_packets_total", 'service="none",reason="no-endpoints"')).toBe(2);
  expect(await page()).toContain("of 1 client");
  const events = () => lab.api.events.filter(({ reason }) => reason === "ConnectionsRefused");
  await expect
    .poll(events)
    .toMatchObject([{ regarding: { kind: "Service", namespace: "shop", name: "none" } }]);
  await connect("pod1");
  expect(await refusals("--service=shop/none")).toContain(": 4 packets of 1 client, first ");
  expect(events()).toHaveLength(1);
  expect(await daemon.stop()).toBe(0);
});

test("refusals without an API server lists refused connections with the kernel's rules", async () => {
  const without = [process.execPath, bundle, "refusals", socket, "--master=http://127.0.0.1:1"] as const;
  const { exitCode, stdout, stderr } = await lab.lab.exec(without);
  expect(exitCode).toBe(0);
  expect(stderr).toContain("warning: objects unavailable, following the kernel's rules alone: ");
  expect(stdout).toMatch(/^10\.96\.7\.9:80\/tcp: 4 packets of 1 client, last \d+s ago\n {2}refused: /);
  expect(stdout).toContain("the reason is unknown: objects unavailable");
  // Without objects the Service of a destination is unknown.
  expect(await lab.lab.exec([...without, "-n=shop"])).toMatchObject({ exitCode: 2, stdout: "" });
});

test("refusals shows first times only beside a daemon, and only for packets since its start", async () => {
  expect(
    await refusals(`--master=${lab.master}`, "--hostname-override=node-1", "--service=shop/none"),
  ).toMatch(/4 packets of 1 client, last \d+s ago\n/);
  const daemon = await started();
  // Endpoints without a pod also have this address.
  expect(await refusals("--client=10.244.1.11")).toContain("10.244.1.11: 4 packets, first unknown, last ");
  await connect("pod2");
  const output = JSON.parse(await refusals("--service=shop/none", "-o", "json"));
  expect(schemaErrors("refusals", output)).toEqual([]);
  const [one]: RefusedDestination[] = output.refusals;
  expect(one).toMatchObject({
    packets: 6,
    clients: [{ address: "10.244.1.12" }, { address: "10.244.1.11" }],
  });
  expect(one?.clients.map(({ firstAt, lastAt }) => firstAt !== undefined && firstAt <= lastAt)).toEqual([
    true,
    false,
  ]);
  expect(one).not.toHaveProperty("firstAt");
  expect(await daemon.stop()).toBe(0);
});

test("refusals --watch reports new refusals with the daemon's objects of the last seconds", async () => {
  const daemon = await started();
  const watch = lab.lab.start("node", [
    process.execPath,
    bundle,
    "refusals",
    "--watch",
    "-o",
    "json",
    socket,
  ]);
  const told: RefusedDestination[] = [];
  watch.onLine((line) => told.push(JSON.parse(line)));
  await expect.poll(() => told, PATIENCE).not.toEqual([]);
  const before = told.length;
  lab.cluster.put("services", apiService("later", { clusterIP: "10.96.7.10" }));
  await lab.converged();
  const reported = async () => {
    await connect("pod1", "10.96.7.10");
    return told.slice(before).at(-1);
  };
  await expect.poll(reported, PATIENCE).toMatchObject({ service: "shop/later", now: "refused" });
  expect(told.at(-1)?.firstAt).toBeDefined();
  watch.kill("SIGTERM");
  expect((await watch.ended).exitCode).toBe(0);
  expect(await daemon.stop()).toBe(0);
});
