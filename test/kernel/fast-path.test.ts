import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { rules } from "../../src/features/fast-path/rules.ts";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { familyContext } from "../support/build.ts";
import { bundle, townFlags } from "../support/command.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import { hasFastPath } from "../support/fast-path.ts";
import { HeldConnection, serveEcho } from "../support/held-connection.ts";
import { HeldFlow } from "../support/held-flow.ts";
import { PATIENCE } from "../support/patience.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import type { StubObject } from "../support/stub-api/selectors.ts";
import { townList } from "../support/stub-api/town.ts";

const CAN = hasFastPath();

const CONTEXT = {
  settings: { fastPath: true, fastPathAfter: 6, serviceCounters: "services" },
  resetVanished: true,
} as const;
const DNS = { port: 53, protocol: "UDP", targetPort: 53, nodePort: 30_053 } as const;
const ECHO = { port: 7000, targetPort: 7000, nodePort: 30_700 } as const;
const FLAGS = [
  "--fast-path",
  "--fast-path-after=6",
  "--reset-vanished",
  "--service-counters=services",
  "--iptables-min-sync-period=10ms",
];
const DNS_IP = "10.96.7.53";
const [ECHO_IP, ECHO_IP6] = ["10.96.8.1", "fd00:10:96::81"];
const BIG = { port: 7001, protocol: "UDP", targetPort: 7001 } as const;
const BIG_IPS = ["10.96.8.2", "fd00:10:96::82"] as const;
const BALANCER_IP = "203.0.113.80";
const [POD1, POD1_IP6] = ["10.244.1.11", "fd00:244:1::11"];
const [POD2, POD2_IP6, FAR] = ["10.244.1.12", "fd00:244:1::12", "10.244.2.12"];

/** A separate port, so that the endpoint's removal affects only this port's connections. */
const BALANCED = { port: 7000, targetPort: 7002 } as const;

/**
 * Returns the load balancer's Service. Clients of these source ranges may use it, or all clients if there are
 * none.
 */
function balanced(loadBalancerSourceRanges: readonly string[]): StubObject {
  const spec = { type: "LoadBalancer", allocateLoadBalancerNodePorts: false, loadBalancerSourceRanges };
  return {
    ...apiService("balanced", { clusterIP: "10.96.8.3", ports: [BALANCED], spec }),
    status: { loadBalancer: { ingress: [{ ip: BALANCER_IP, ipMode: "VIP" }] } },
  };
}

/**
 * A listing at the end of a transaction makes nft read the sets of one table only: see
 * docs/dev/decisions/others-sets.md.
 */
const oneTable = { list: { counters: { family: "ip", table: "nft-proxy" } } };
const anotherRule = {
  add: {
    rule: {
      family: "ip",
      table: "nft-proxy",
      chain: "fast-path",
      expr: rules.chains(familyContext("ip", CONTEXT))[0]?.rules[0],
    },
  },
};

let lab: DaemonLab;
let daemon: RunningDaemon;

/** Makes a lab with Services for UDP and TCP. The daemon is not started yet. */
async function makeLab(): Promise<DaemonLab> {
  const made = await DaemonLab.create();
  for (const resource of ["nodes", "servicecidrs"] as const)
    made.cluster.load(resource, townList("town", resource));
  made.cluster.put("services", apiService("dns", { clusterIP: DNS_IP, ports: [DNS] }));
  made.cluster.put("services", apiService("echo", { clusterIP: ECHO_IP, ports: [ECHO] }));
  made.cluster.put(
    "services",
    apiService("echo-six", { clusterIP: ECHO_IP6, ports: [{ port: 7000, targetPort: 7000 }] }),
  );
  for (const [index, clusterIP] of BIG_IPS.entries()) {
    made.cluster.put("services", apiService(`big-${index}`, { clusterIP, ports: [BIG] }));
    made.cluster.put("endpointslices", apiSlice(`big-${index}`, [[POD1, POD1_IP6][index] ?? ""], [BIG]));
  }
  made.cluster.put("services", balanced([]));
  made.cluster.put("endpointslices", apiSlice("balanced", [POD1], [BALANCED]));
  made.cluster.put("endpointslices", apiSlice("dns", [POD1], [DNS]));
  made.cluster.put("endpointslices", apiSlice("echo", [POD1], [ECHO]));
  made.cluster.put("endpointslices", apiSlice("echo-six", [POD1_IP6], [ECHO]));
  return made;
}

describe.runIf(CAN)("the fast path", () => {
  beforeAll(async () => {
    lab = await makeLab();
    await serveEcho(lab.lab, "pod1", 7000, BALANCED.targetPort);
    await serveEcho(lab.lab, "pod2", 7000);
    daemon = lab.start(FLAGS);
    await lab.converged(CONTEXT);
  });
  afterAll(() => lab?.close());

  test("includes the host's interfaces", async () => {
    for (const family of ["ip", "ip6"]) {
      await expect
        .poll(() => devices(family))
        .toEqual(expect.arrayContaining(["eth0", "pod1", "pod2", "pod3"]));
    }
  });

  async function devices(family = "ip"): Promise<string[]> {
    const text = await lab.nft("list", "flowtable", family, "nft-proxy", "fast-path");
    return [...(/devices = \{ (.*) \}/.exec(text)?.[1] ?? "").matchAll(/[\w.-]+/g)].map(String);
  }

  /** Counts the connections to an address that conntrack shows as offloaded. */
  async function offloaded(address: string, ...filter: readonly string[]): Promise<number> {
    const family = address.includes(":") ? "ipv6" : "ipv4";
    const { stdout } = await lab.lab.exec([
      "conntrack",
      "-L",
      "-f",
      family,
      "--orig-dst",
      address,
      ...filter,
    ]);
    return [...stdout.matchAll(/\[OFFLOAD\]/g)].length;
  }

  test("takes over UDP flows to a ClusterIP and to a masqueraded NodePort", async () => {
    const flows = [
      new HeldFlow(lab.lab, "pod2", DNS_IP, 53),
      new HeldFlow(lab.lab, "ext", "192.0.2.2", 30_053),
    ];
    for (const flow of flows) await flow.answeredBy(POD1);
    await expect.poll(() => offloaded(DNS_IP), PATIENCE).toBe(1);
    await expect.poll(() => offloaded("192.0.2.2", "-p", "udp"), PATIENCE).toBe(1);
    for (const flow of flows) await flow.answeredBy(POD1);
  });

  test("releases UDP flows whose endpoint was removed, and they move to another endpoint", async () => {
    const flow = new HeldFlow(lab.lab, "pod3", DNS_IP, 53);
    await flow.answeredBy(POD1);
    await expect.poll(() => offloaded(DNS_IP, "--orig-src", "10.244.1.13"), PATIENCE).toBe(1);
    lab.cluster.put("endpointslices", apiSlice("dns", [FAR], [DNS]));
    await flow.answeredBy(FAR);
    await expect.poll(() => offloaded(DNS_IP, "--orig-src", "10.244.1.13"), PATIENCE).toBe(1);
    lab.cluster.put("endpointslices", apiSlice("dns", [], [DNS]));
    await flow.answeredBy("nobody");
  });

  test("takes over TCP connections of both families, to a NodePort and of a pod to itself, and releases them at their end", async () => {
    const held = await HeldConnection.openAll(lab.lab, [
      ["pod4", ECHO_IP, 7000],
      ["pod4", ECHO_IP6, 7000],
      ["ext", "192.0.2.2", 30_700],
      ["pod1", ECHO_IP, 7000],
    ]);
    await expect.poll(() => offloaded(ECHO_IP), PATIENCE).toBe(2);
    await expect.poll(() => offloaded(ECHO_IP6), PATIENCE).toBe(1);
    await expect.poll(() => offloaded("192.0.2.2", "-p", "tcp"), PATIENCE).toBe(1);
    await Promise.all(held.map((one) => one.stillAnswered()));
    for (const end of ["end", "resetAndDestroy"]) {
      const short = `const socket = require("node:net").connect(7000, "${ECHO_IP}"); let n = 0;
        socket.on("data", () => ++n < 40 ? socket.write("x") : socket.${end}()).on("connect", () => socket.write("x"))`;
      await lab.lab.mustRun("pod5", [process.execPath, "-e", short], { timeoutMs: PATIENCE.timeout });
      await expect.poll(() => offloaded(ECHO_IP, "--orig-src", "10.244.1.15"), PATIENCE).toBe(0);
    }
  });

  test("sends a large answer over a route with a smaller MTU", async () => {
    await lab.lab.exec(["ip", "route", "change", "10.244.1.16/32", "dev", "pod6", "mtu", "1300"]);
    const ask = `const socket = require("node:net").connect(7000, "${ECHO_IP}"); let left = 2_000_000;
      socket.on("data", ({ length }) => { left -= length; if (left <= 0) process.exit(0); });
      socket.write(Buffer.alloc(2_000_000))`;
    await lab.lab.mustRun("pod6", [process.execPath, "-e", ask], { timeoutMs: PATIENCE.timeout });
  });

  test.each(BIG_IPS)(
    "lets UDP fragments pass beside the offloaded packets of the same flow, to %s",
    async (address) => {
      const serve = `const socket = require("node:dgram").createSocket("udp6"); console.log("up");
      socket.on("message", (data, { port, address }) => socket.send(data, port, address)).bind(7001)`;
      const server = lab.lab.start("pod1", [process.execPath, "-e", serve]);
      await new Promise<void>((resolve) => server.onLine(() => resolve()));
      const ask = `const socket = require("node:dgram").createSocket("${address.includes(":") ? "udp6" : "udp4"}"); let n = 0;
      const next = () => socket.send(Buffer.alloc(n < 50 || n % 2 ? 1 : 4000));
      socket.on("message", ({ length }) => {
        if (length !== (n < 50 || n % 2 ? 1 : 4000)) process.exit(1);
        if (++n === 80) process.exit(0);
        next();
      }).connect(7001, "${address}", next)`;
      await lab.lab.mustRun("pod3", [process.execPath, "-e", ask], { timeoutMs: PATIENCE.timeout });
      expect(await offloaded(address)).toBe(1);
      server.kill("SIGKILL");
      await server.ended;
    },
  );

  test("counts new connections, but packets only if the flow table has counters", async () => {
    await lab.lab.mustRun("node", ["sysctl", "-qw", "net.netfilter.nf_conntrack_acct=1"]);
    const connections = () => lab.metric("nft_proxy_service_connections_total", 'service="echo"');
    const before = await connections();
    const held = await HeldConnection.open(lab.lab, "pod2", ECHO_IP, 7000);
    const client = ["-p", "tcp", "--orig-src", POD2];
    await expect.poll(() => offloaded(ECHO_IP, ...client), PATIENCE).toBe(1);
    // Counts packets that were in flight when the connection was offloaded.
    await held.stillAnswered();
    const packets = async () => {
      const { stdout } = await lab.lab.exec(["conntrack", "-L", "--orig-dst", ECHO_IP, ...client]);
      return [...stdout.matchAll(/packets=(\d+)/g)].map(([, count]) => Number(count));
    };
    const [asked = 0, answered = 0] = await packets();
    expect(Math.min(asked, answered)).toBeGreaterThan(0);
    const received = async () =>
      JSON.parse(await lab.lab.mustRun("node", ["ip", "-j", "-s", "link", "show", "dev", "pod2"]))[0].stats64
        .rx.packets;
    const receivedBefore = await received();
    for (let times = 0; times < 5; times++) await held.stillAnswered();
    expect(await packets()).toEqual([asked, answered]);
    expect((await received()) - receivedBefore).toBeGreaterThan(5);
    await expect.poll(connections, PATIENCE).toBe(before + 1);
    // This uses nft's own syntax, because its JSON has no flags for flow tables.
    await lab.nft("add flowtable ip nft-proxy fast-path { hook ingress priority -1; counter; }");
    const counting = () => lab.nft("list", "flowtable", "ip", "nft-proxy", "fast-path");
    expect(await counting()).toContain("counter");
    for (let times = 0; times < 5; times++) await held.stillAnswered();
    const [askedNow = 0, answeredNow = 0] = await packets();
    expect(askedNow - asked).toBeGreaterThan(5);
    expect(answeredNow - answered).toBeGreaterThan(5);
    expect(await offloaded(ECHO_IP, ...client)).toBe(1);
    // The daemon adds a new interface without the flag.
    await lab.lab.exec(["ip", "link", "add", "counted0", "type", "veth", "peer", "name", "counted1"]);
    await expect.poll(() => devices(), PATIENCE).toContain("counted0");
    expect(await counting()).not.toContain("counter");
    await lab.lab.mustRun("node", ["sysctl", "-qw", "net.netfilter.nf_conntrack_acct=0"]);
  });

  test("releases an idle connection with the timeout of its state, and takes it over again", async () => {
    const held = await HeldConnection.open(lab.lab, "pod6", ECHO_IP, 7000);
    const client = ["--orig-src", "10.244.1.16"];
    await expect.poll(() => offloaded(ECHO_IP, ...client), PATIENCE).toBe(1);
    await held.rest();
    await expect.poll(() => offloaded(ECHO_IP, ...client), PATIENCE).toBe(0);
    const list = ["conntrack", "-L", "-p", "tcp", "--orig-dst", ECHO_IP, ...client] as const;
    // kube-proxy's timeout of a day, less the time since.
    expect((await lab.lab.exec(list)).stdout).toMatch(/^tcp +6 86[23]\d\d ESTABLISHED /m);
    held.wake();
    await held.stillAnswered();
    await expect.poll(() => offloaded(ECHO_IP, ...client), PATIENCE).toBe(1);
  });

  test("keeps established TCP connections when source ranges change or the Service is deleted; new ones end", async () => {
    const held = await HeldConnection.open(lab.lab, "ext", BALANCER_IP, 7000);
    await expect.poll(() => offloaded(BALANCER_IP), PATIENCE).toBe(1);
    const connect = `const socket = require("node:net").connect(7000, "${BALANCER_IP}");
      socket.setTimeout(3000, () => process.exit(2)).on("error", () => process.exit(1)).on("connect", () => process.exit(0))`;
    const connects = async () =>
      (await lab.lab.run("ext", [process.execPath, "-e", connect], { timeoutMs: PATIENCE.timeout })).exitCode;
    expect(await connects()).toBe(0);
    lab.cluster.put("services", balanced(["198.51.100.0/24"]));
    await lab.converged(CONTEXT);
    expect(await connects()).toBe(2);
    await held.stillAnswered();
    // On Linux 7.2 the short connection above may take a while to disappear.
    await expect.poll(() => offloaded(BALANCER_IP), PATIENCE).toBe(1);
    lab.cluster.remove("services", balanced([]));
    await lab.converged(CONTEXT);
    expect(await connects()).not.toBe(0);
    await held.stillAnswered();
    await expect.poll(() => offloaded(BALANCER_IP), PATIENCE).toBe(1);
  });

  test("releases UDP flows when their Service is deleted", async () => {
    lab.cluster.put("endpointslices", apiSlice("dns", [POD1], [DNS]));
    const flow = new HeldFlow(lab.lab, "pod6", DNS_IP, 53);
    await flow.answeredBy(POD1);
    await expect.poll(() => offloaded(DNS_IP, "--orig-src", "10.244.1.16"), PATIENCE).toBe(1);
    lab.cluster.remove("services", apiService("dns", { clusterIP: DNS_IP }));
    await flow.answeredBy("nobody");
    expect(await offloaded(DNS_IP)).toBe(0);
  });

  test("includes interfaces as they are added and removed", async () => {
    await lab.lab.exec(["ip", "link", "add", "late0", "type", "veth", "peer", "name", "late1"]);
    for (const family of ["ip", "ip6"]) await expect.poll(() => devices(family), PATIENCE).toContain("late0");
    await lab.lab.exec(["ip", "link", "del", "late0"]);
    await lab.lab.exec(["ip", "link", "add", "later0", "type", "veth", "peer", "name", "later1"]);
    await expect.poll(() => devices(), PATIENCE).toContain("later0");
    expect(daemon.log.filter(({ msg }) => msg.includes("flow tables"))).toEqual([]);
  });

  test("survives a restart and kill -9 unchanged, and so do its connections", async () => {
    const held = await HeldConnection.open(lab.lab, "pod4", ECHO_IP, 7000);
    await expect.poll(() => offloaded(ECHO_IP, "--orig-src", "10.244.1.14"), PATIENCE).toBeGreaterThan(0);
    const before = await devices();
    daemon.signal("SIGKILL");
    await daemon.ended;
    await held.stillAnswered();
    daemon = lab.start(FLAGS);
    expect(await daemon.saying("full sync")).toMatchObject({ sent: 0 });
    await held.stillAnswered();
    expect((await devices()).sort()).toEqual(before.sort());
  });

  test("is repaired with its interfaces after another program removes the rule or the tables", async () => {
    const held = await HeldConnection.open(lab.lab, "pod4", ECHO_IP, 7000);
    await lab.nft("flush", "chain", "ip", "nft-proxy", "fast-path");
    await lab.converged(CONTEXT);
    await lab.lab.loadTransaction(JSON.stringify({ nftables: [anotherRule, oneTable] }));
    await lab.converged(CONTEXT);
    // The connection is idle while nothing is translated. An answer in flight would break it, and the client
    // would retransmit a lost packet only after twice the time without tables.
    await held.rest();
    await lab.nft("flush", "ruleset");
    await lab.converged(CONTEXT);
    held.wake();
    await expect.poll(() => devices(), PATIENCE).toContain("eth0");
    await held.stillAnswered();
    await expect.poll(() => offloaded(ECHO_IP, "--orig-src", "10.244.1.14"), PATIENCE).toBeGreaterThan(0);
    // The number is 0 after a full sync with repairs, until the interfaces are read again.
    await expect.poll(() => lab.metric("nft_proxy_fast_path_interfaces"), PATIENCE).toBeGreaterThan(5);
  });

  test("is included in diff and explain", async () => {
    const ask = (...args: string[]) =>
      lab.lab.exec([process.execPath, bundle, ...args], { timeoutMs: PATIENCE.timeout });
    expect(await ask("explain", "--live", `${ECHO_IP}:7000`)).toMatchObject({ exitCode: 0 });
    const { stdout } = await ask("connections");
    expect(stdout).toContain("offloaded");
  });

  test("releases connections to an endpoint whose drain timeout is over, and they are reset", async () => {
    const held = await HeldConnection.open(lab.lab, "pod5", ECHO_IP6, 7000);
    await expect.poll(() => offloaded(ECHO_IP6, "--orig-src", "fd00:244:1::15"), PATIENCE).toBe(1);
    const ports = [{ port: 7000, targetPort: 7000 }];
    const { metadata, ...rest } = apiService("echo-six", { clusterIP: ECHO_IP6, ports });
    const annotations = { "nft-proxy.io/drain-timeout": "1s" };
    lab.cluster.put("services", { ...rest, metadata: { ...metadata, annotations } });
    const conditions = { ready: false, serving: true, terminating: true };
    const endpoints = [{ addresses: [POD1_IP6], conditions }, { addresses: [POD2_IP6] }];
    lab.cluster.put("endpointslices", { ...apiSlice("echo-six", [POD1_IP6], [ECHO]), endpoints });
    await expect.poll(() => held.brokenBy, PATIENCE).toBe("ECONNRESET");
    // A restart would take over this endpoint, and with the annotation those of all Services.
    lab.cluster.put("services", { ...rest, metadata });
    lab.cluster.put("endpointslices", apiSlice("echo-six", [POD1_IP6, POD2_IP6], [ECHO]));
    await expect
      .poll(() => lab.nft("list", "table", "ip6", "nft-proxy"), PATIENCE)
      .not.toContain(`${POD1_IP6} . 7000 expires`);
  });

  test("releases connections to a vanished endpoint, and they are reset", async () => {
    const held = await HeldConnection.open(lab.lab, "pod4", ECHO_IP, 7000);
    await expect.poll(() => offloaded(ECHO_IP, "--orig-src", "10.244.1.14"), PATIENCE).toBeGreaterThan(0);
    lab.cluster.put("endpointslices", apiSlice("echo", [POD2], [ECHO]));
    await expect.poll(() => held.brokenBy, PATIENCE).toBe("ECONNRESET");
  });

  test("is removed by a restart without the option", async () => {
    await daemon.stop();
    daemon = lab.start();
    await lab.converged();
    expect(await lab.nft("list", "table", "ip", "nft-proxy")).not.toContain("fast-path");
  });
});

describe.skipIf(CAN)("a kernel without flow tables, or before 5.14", () => {
  beforeAll(async () => {
    lab = await makeLab();
    daemon = lab.start(FLAGS);
  });
  afterAll(() => lab?.close());

  test("gets rules without a fast path, and one warning that names the missing modules or the kernel", async () => {
    await lab.converged({ resetVanished: true, settings: { serviceCounters: "services" } });
    const warnings = daemon.said("--fast-path has no effect: no connection takes the fast path");
    expect(warnings).toMatchObject([
      { level: "warn", hint: expect.stringMatching(/nft_flow_offload|use Linux 5\.14/) },
    ]);
  });

  test("gets the same rules from apply, but dump still shows the fast path", async () => {
    const from = [
      "--from",
      new URL("../fixtures/town/objects", import.meta.url).pathname,
      ...townFlags,
      "--fast-path",
    ];
    const dumped = await lab.lab.exec([process.execPath, bundle, "dump", "-o", "nft", ...from]);
    expect(dumped.stdout).toMatch(/flowtable fast-path \{\n\t\thook ingress priority filter - 1\n/);
    expect(dumped.stdout).toContain("numgen random mod 20 0 flow add @fast-path");
    const applied = await lab.lab.exec([process.execPath, bundle, "apply", ...from, "--force"]);
    expect(applied).toMatchObject({ exitCode: 0, stderr: expect.stringContaining("flow tables") });
  });
});
