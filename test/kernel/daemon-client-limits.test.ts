import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { bundle } from "../support/command.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import { HeldConnection, serveEcho } from "../support/held-connection.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { loadTown } from "../support/stub-api/town.ts";

const CLUSTER_IP = "10.96.7.30";
const CLIENT = "pod3";
const ECHO = { port: 80, targetPort: 7000 };
const PREFIX = "nft-proxy.io";

/** The Service with these annotations. */
function annotated(annotations: Readonly<Record<string, string>>) {
  const service = apiService("limited", { clusterIP: CLUSTER_IP, ports: [ECHO] });
  return { ...service, metadata: { ...service.metadata, annotations } };
}

let lab: DaemonLab;
let socket: string;
/** Stale chains and sets go soon. */
let flags: readonly string[];
let daemon: RunningDaemon;
/** The connections that a test holds, of one process. */
let held: readonly HeldConnection[] = [];
beforeAll(async () => {
  lab = await DaemonLab.create();
  loadTown(lab.cluster);
  lab.cluster.put("services", annotated({ [`${PREFIX}/max-connections-per-client`]: "2" }));
  lab.cluster.put("endpointslices", apiSlice("limited", ["10.244.1.12"], [ECHO]));
  await serveEcho(lab.lab, "pod2", 7000);
  socket = `--daemon-socket=${await lab.file("placeholder", "")}.d/daemon.sock`;
  flags = [socket, "--iptables-sync-period=1s"];
});
afterEach(async () => {
  await held[0]?.close();
  await daemon.stop();
});
afterAll(() => lab?.close());

/** Opens as many connections as the limit allows. */
async function hold(): Promise<void> {
  held = await HeldConnection.openAll(lab.lab, Array(2).fill([CLIENT, CLUSTER_IP, 80] as const));
}

/** Makes two more connections. */
async function outcome(): Promise<string | undefined> {
  const probe = {
    id: "only",
    from: CLIENT,
    to: CLUSTER_IP,
    port: 80,
    proto: "tcp",
    n: 1,
    wait: 0.3,
  } as const;
  return (await lab.lab.probe([probe])).get("only")?.result;
}

test("a client at its limit stays refused over a restart, and commands, metrics, the page and an Event show it", async () => {
  daemon = lab.start(flags);
  await daemon.saying("server listening", 3);
  await lab.converged();
  const run = async (...argv: readonly string[]) =>
    (await lab.lab.exec([process.execPath, bundle, ...argv, socket])).stdout;
  // The first reading of the daemon counts nothing.
  await run("refusals");
  await hold();
  expect(await outcome()).toBe("refused");
  expect(await run("refusals", "--service=shop/limited")).toMatch(
    /2 packets of 1 client,[^\n]*\n {2}refused at times: a client of Service shop\/limited can have 2 connections at a time/,
  );
  expect(await run("explain", `${CLUSTER_IP}:80`)).toContain("2 connections at a time");
  expect(await run("diff")).toContain("no difference");
  const labels = 'service="limited",reason="client-limits"';
  expect(await lab.metric("nft_proxy_refused_packets_total", labels)).toBe(2);
  await expect
    .poll(() => lab.metric("nft_proxy_limited_clients", 'family="ip",map="client-connections"'), {
      timeout: 60_000,
    })
    .toBe(1);
  const page = async (path: string) => (await lab.get(10249, path)).body;
  expect(await page("/?service=shop/limited")).toContain("2 connections at a time");
  expect(await page("/")).toContain("Clients with limited connections, IPv4");
  expect(await daemon.stop()).toBe(0);
  expect(await outcome()).toBe("refused");
  daemon = lab.start(flags);
  await daemon.saying("full sync");
  await lab.converged();
  expect(await outcome()).toBe("refused");
  await Promise.all(held.map((one) => one.stillAnswered()));
});

test("a changed or removed limit takes effect while connections are open, and an invalid limit is reported and ignored", async () => {
  daemon = lab.start(flags);
  await daemon.saying("full sync");
  await lab.converged();
  await hold();
  expect(await outcome()).toBe("refused");
  lab.cluster.put(
    "services",
    annotated({
      [`${PREFIX}/max-connections-per-client`]: "many",
      [`${PREFIX}/new-connections-per-client`]: "1/hour",
    }),
  );
  await lab.converged();
  // The first one opens and gets no answer, as the server waits for a request.
  expect(await outcome()).toBe("refused/timeout");
  const events = () => lab.api.events.filter(({ reason }) => reason === "InvalidClientLimits");
  await expect
    .poll(events)
    .toMatchObject([
      { regarding: { name: "limited" }, note: expect.stringContaining('not "many": it is ignored') },
    ]);
  lab.cluster.put("services", annotated({}));
  await lab.converged();
  expect(await outcome()).toBe("timeout");
  expect(await lab.nft("list", "table", "ip", "nft-proxy")).not.toContain("client-");
  await Promise.all(held.map((one) => one.stillAnswered()));
});

test("foreign changes to limits are repaired, and the kernel's own changes are not drift", async () => {
  lab.cluster.put("services", annotated({ [`${PREFIX}/max-connections-per-client`]: "2" }));
  daemon = lab.start(flags);
  await daemon.saying("full sync");
  await lab.converged();
  await hold();
  expect(await outcome()).toBe("refused");
  expect(await lab.metric("nft_proxy_drift_repairs_total", 'kind="element"')).toBe(0);
  await lab.nft("flush", "chain", "ip", "nft-proxy", "client-limit-2");
  await expect.poll(() => lab.metric("nft_proxy_drift_repairs_total", 'kind="element"')).toBe(1);
  await lab.nft("flush", "map", "ip", "nft-proxy", "client-limits");
  await expect.poll(() => lab.metric("nft_proxy_drift_repairs_total", 'kind="element"')).toBe(2);
  await lab.converged();
  expect(await outcome()).toBe("refused");
});
