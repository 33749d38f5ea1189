import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ApiPort, apiService, apiSlice } from "../support/api-objects.ts";
import { bundle } from "../support/command.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import { HeldConnection, type HeldEnds, serveEcho } from "../support/held-connection.ts";
import { HeldFlow } from "../support/held-flow.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { townList } from "../support/stub-api/town.ts";

// The built daemon, and connections in use whose endpoints terminate or leave, with the annotations of their
// Services. The pods live on: a connection that stays is answered. Each Service has its own port.

// Stale chains go within a second instead of 30.
const FLAGS = ["--iptables-sync-period=1s", "--iptables-min-sync-period=10ms"];
const PATIENCE = { timeout: 20_000 };
const [NEAR, FAR] = ["10.244.1.11", "10.244.2.12"] as const;
const [NEAR6, FAR6] = ["fd00:244:1::11", "fd00:244:2::12"] as const;
const SIP = { port: 53, protocol: "UDP", targetPort: 53 } as const;
const DRAIN = { "nft-proxy.io/drain-timeout": "1s" };
const SOON = { "nft-proxy.io/drain-timeout": "2s" };
const LONG = { "nft-proxy.io/drain-timeout": "1h" };
const RESET = { "nft-proxy.io/on-endpoint-removed": "reset" };
const KEEP = { "nft-proxy.io/on-endpoint-removed": "keep" };

/** The name, cluster IP, port and annotations of each TCP Service. */
const OFFERS = [
  ["drained", "10.96.9.1", 7001, DRAIN],
  ["drained-six", "fd00:10:96::9:1", 7001, DRAIN],
  ["patient", "10.96.9.2", 7002, LONG],
  ["patient-six", "fd00:10:96::9:2", 7002, LONG],
  ["shared", "10.96.9.3", 7003, DRAIN],
  ["sharing", "10.96.9.4", 7003, {}],
  ["flapping", "10.96.9.5", 7004, DRAIN],
  ["lonely", "10.96.9.6", 7005, DRAIN],
  ["reset", "10.96.9.7", 7006, RESET],
  ["reset-six", "fd00:10:96::9:7", 7006, RESET],
  ["kept", "10.96.9.8", 7007, KEEP],
  ["plain", "10.96.9.9", 7008, {}],
  ["restarted", "10.96.9.10", 7009, SOON],
  ["restarted-six", "fd00:10:96::9:10", 7009, SOON],
] as const;

let lab: DaemonLab;
let daemon: RunningDaemon;
beforeAll(async () => {
  lab = await DaemonLab.create();
  for (const resource of ["nodes", "servicecidrs"] as const)
    lab.cluster.load(resource, townList("town", resource));
  for (const [name, clusterIP, port, annotations] of OFFERS) {
    put(name, clusterIP, portOf(name, port), annotations);
    serve(name, [near(clusterIP)]);
  }
  await serveEcho(lab.lab, "pod1", ...new Set(OFFERS.map(([, , port]) => port)));
  daemon = lab.start(FLAGS);
  await lab.converged();
});
afterAll(() => lab?.close());

const near = (clusterIP: string) => (clusterIP.includes(":") ? NEAR6 : NEAR);
const far = (clusterIP: string) => (clusterIP.includes(":") ? FAR6 : FAR);

function portOf(name: string, port: number): ApiPort {
  return { port, targetPort: port, ...(name === "drained" && { nodePort: 32_801 }) };
}

function put(name: string, clusterIP: string, port: ApiPort, annotations: Record<string, string>): void {
  const { metadata, ...rest } = apiService(name, { clusterIP, ports: [port] });
  lab.cluster.put("services", { ...rest, metadata: { ...metadata, annotations } });
}

type Conditions = { readonly ready: boolean; readonly serving: boolean; readonly terminating: boolean };
const READY: Conditions = { ready: true, serving: true, terminating: false };
const UNREADY: Conditions = { ready: false, serving: false, terminating: false };
const TERMINATING: Conditions = { ready: false, serving: true, terminating: true };

/** Replaces the endpoints of a Service. */
function serve(
  name: string,
  addresses: readonly string[],
  conditions = READY,
  others: readonly string[] = [],
) {
  const [, , port = 0] = OFFERS.find(([known]) => known === name) ?? [];
  const slice = apiSlice(name, [...addresses, ...others], port === 0 ? [SIP] : [portOf(name, port)]);
  const endpoints = [
    ...addresses.map((address) => ({ addresses: [address], conditions })),
    ...others.map((address) => ({ addresses: [address], conditions: READY })),
  ];
  lab.cluster.put("endpointslices", { ...slice, endpoints });
}

/** A connection of a pod to each of these Services. */
async function holdAll(names: readonly string[]): Promise<readonly HeldConnection[]> {
  const ends = names.flatMap((name): HeldEnds[] => {
    const [, address, port] = OFFERS.find(([known]) => known === name) ?? [];
    return address === undefined || port === undefined ? [] : [["pod4", address, port]];
  });
  return await HeldConnection.openAll(lab.lab, ends);
}

const reset = (held: readonly HeldConnection[]) =>
  expect.poll(() => held.map(({ brokenBy }) => brokenBy), PATIENCE).toEqual(held.map(() => "ECONNRESET"));

const tables = () => lab.nft("-t", "list", "ruleset");
const inKernel = async (family = "ip") => {
  const text = await lab.nft("list", "ruleset", family);
  const [set = ""] = /set vanished \{[\s\S]*?\n\t\}/.exec(text) ?? [];
  return [...set.matchAll(/([\d.a-f:]+) \. (\d+)/g)].map(([, address, port]) => `${address} ${port}`).sort();
};

describe("connections to endpoints", () => {
  test("that terminate are reset after the drain timeout, from pods, node and outside; others stay", async () => {
    expect(await tables()).not.toContain("vanished");
    const toKeep = await holdAll(["patient", "patient-six", "shared", "sharing", "flapping", "lonely"]);
    const toReset = await HeldConnection.openAll(lab.lab, [
      ["pod4", "10.96.9.1", 7001],
      ["pod4", "fd00:10:96::9:1", 7001],
      ["node", "10.96.9.1", 7001],
      ["node", "fd00:10:96::9:1", 7001],
      ["ext", "192.0.2.2", 32_801],
    ]);
    serve("flapping", [NEAR], UNREADY, [FAR]);
    serve("lonely", [NEAR], TERMINATING);
    for (const name of ["patient", "shared", "sharing"]) serve(name, [NEAR], TERMINATING, [FAR]);
    serve("patient-six", [NEAR6], TERMINATING, [FAR6]);
    for (const name of ["drained", "drained-six"]) {
      const clusterIP = name === "drained" ? "" : ":";
      serve(name, [near(clusterIP)], TERMINATING, [far(clusterIP)]);
    }
    await reset(toReset);
    await Promise.all(toKeep.map((one) => one.stillAnswered()));
    expect(await inKernel()).toEqual([`${NEAR} 7001`]);
    expect(await inKernel("ip6")).toEqual([`${NEAR6} 7001`]);
    const explain = async (address: string) =>
      (await lab.lab.exec([process.execPath, bundle, "explain", "--live", address])).stdout.replaceAll(
        /\s+/g,
        " ",
      );
    expect(await explain("10.96.9.1:7001")).toContain(
      `${NEAR}:7001 exceeded the drain timeout of shop/drained`,
    );
    expect(await explain("10.96.9.2:7002")).toContain(`${NEAR} has been terminating for`);
    expect((await lab.get(10249, "/")).body).toContain(
      `${NEAR}:7001 exceeded the drain timeout of shop/drained`,
    );
    expect(await lab.metric("nft_proxy_reset_packets_total")).toBeGreaterThan(3);
    // The only endpoint also gets new connections.
    await holdAll(["lonely"]);
  });

  test("stay so over a restart and a lost table; those that drain are reset after it, and no earlier than without it", async () => {
    const draining = ["restarted", "restarted-six"] as const;
    const held = await holdAll(draining);
    const since = Date.now();
    serve("restarted", [NEAR], TERMINATING, [FAR]);
    serve("restarted-six", [NEAR6], TERMINATING, [FAR6]);
    const endpoints = () => lab.nft("list", "map", "ip6", "nft-proxy", "endpoints");
    await expect.poll(endpoints, PATIENCE).toContain(`${FAR6} . 7009`);
    await daemon.stop();
    daemon = lab.start(FLAGS);
    await daemon.saying("full sync");
    expect(await inKernel()).toContain(`${NEAR} 7001`);
    await reset(held);
    expect(Date.now() - since).toBeGreaterThanOrEqual(2000);
    expect(await inKernel("ip6")).toEqual([`${NEAR6} 7001`, `${NEAR6} 7009`]);
    for (const name of draining) serve(name, [near(name === "restarted" ? "" : ":")]);
    await lab.nft("delete", "table", "ip", "nft-proxy");
    await expect.poll(async () => (await tables()).includes("table ip nft-proxy"), PATIENCE).toBe(true);
    await expect.poll(() => inKernel(), PATIENCE).toEqual([`${NEAR} 7001`]);
    const { stdout } = await lab.lab.exec([process.execPath, bundle, "diff"]);
    expect(stdout).not.toContain("vanished");
  });

  test("that are back get connections again, and the last one leaves no rule behind", async () => {
    for (const name of ["drained", "drained-six"]) serve(name, [near(name === "drained" ? "" : ":")]);
    await expect.poll(() => inKernel(), PATIENCE).toEqual([]);
    await holdAll(["drained", "drained-six"]);
    await lab.converged();
  });

  test("that left are reset or kept as the Service wants, by default kept without --reset-vanished", async () => {
    const held = await holdAll(["reset", "reset-six", "kept", "plain"]);
    for (const name of ["kept", "plain", "reset", "reset-six"]) serve(name, []);
    await reset(held.slice(0, 2));
    await Promise.all(held.slice(2).map((one) => one.stillAnswered()));
    expect(await inKernel()).toEqual([`${NEAR} 7006`]);
  });

  test("that left are reset by default with --reset-vanished", async () => {
    for (const name of ["kept", "plain", "reset"]) serve(name, [NEAR]);
    await daemon.stop();
    daemon = lab.start([...FLAGS, "--reset-vanished"]);
    await daemon.saying("full sync");
    const held = await holdAll(["plain", "kept"]);
    for (const name of ["kept", "plain"]) serve(name, []);
    await reset(held.slice(0, 1));
    await held[1]?.stillAnswered();
  });

  test("stay without the feature, whatever the annotations of Services", async () => {
    for (const name of ["drained", "plain"]) serve(name, [NEAR]);
    await daemon.stop();
    daemon = lab.start([...FLAGS, "--features=none", "--reset-vanished"]);
    await daemon.saying("full sync");
    const held = await holdAll(["drained", "plain"]);
    serve("drained", [NEAR], TERMINATING, [FAR]);
    serve("plain", []);
    await reset(held.slice(1));
    await held[0]?.stillAnswered();
    await daemon.stop();
    daemon = lab.start(FLAGS);
    await daemon.saying("full sync");
  });
});

describe("UDP flows", () => {
  test.each([
    ["IPv4", "", "10.96.9.53", "10.96.9.54"],
    ["IPv6", ":", "fd00:10:96::9:53", "fd00:10:96::9:54"],
  ])(
    "stay with a terminating endpoint that serves until its drain timeout (%s)",
    async (_, kind, ...addresses) => {
      const names = [`sip${kind.length}`, `quic${kind.length}`] as const;
      const [sip = "", quic = ""] = addresses;
      put(names[0], sip, SIP, DRAIN);
      put(names[1], quic, SIP, LONG);
      for (const name of names) serve(name, [near(kind)]);
      const [moving, staying] = addresses.map((address) => new HeldFlow(lab.lab, "pod3", address, 53));
      await moving?.answeredBy(near(kind));
      await staying?.answeredBy(near(kind));
      // A slow daemon lets flows start before it has made their Service.
      const changes = staying?.answers.length;
      for (const name of names.toReversed()) serve(name, [near(kind)], TERMINATING, [far(kind)]);
      await moving?.answeredBy(far(kind));
      expect(staying?.answers).toHaveLength(changes ?? 0);
      serve(names[1], [], READY, [far(kind)]);
      await staying?.answeredBy(far(kind));
    },
  );
});
