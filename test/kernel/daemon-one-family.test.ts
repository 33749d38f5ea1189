import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Family } from "../../src/base/family.ts";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { bundle } from "../support/command.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import { RunningDaemon } from "../support/running-daemon.ts";

/** Hides IPv6 from a program: /proc/net has no file for IPv6, as after a boot with `ipv6.disable=1`. */
const WITHOUT_IPV6 = [
  "unshare",
  "--mount",
  "sh",
  "-c",
  `copy=$(mktemp -d) && cp /proc/net/fib_trie /proc/net/route /proc/net/dev $copy &&
  mount -t tmpfs none /proc/$$/net && cp $copy/* /proc/$$/net && rm -r $copy && exec "$@"`,
  "sh",
] as const;

const PORT = { port: 80, targetPort: 8080 };
const ADDRESSES = {
  ip: { service: "10.96.7.7", endpoint: "10.244.1.11", node: "192.0.2.2", pods: "10.244.0.0/16" },
  ip6: { service: "fd00:96::7", endpoint: "fd00:244:1::11", node: "2001:db8::2", pods: "fd00:244::/32" },
} as const;

let lab: DaemonLab;
let daemon: RunningDaemon;
beforeAll(async () => {
  lab = await DaemonLab.create();
});
afterAll(() => lab?.close());
afterEach(async () => {
  await daemon.stop();
  await lab.nft("flush", "ruleset");
});

/**
 * Starts the daemon of a cluster with one family and a Service `shop/echo`.
 * @param through starts other programs
 */
async function start(family: Family, through: readonly [string, ...string[]] = ["env"]): Promise<void> {
  const { service, endpoint, node, pods } = ADDRESSES[family];
  const status = { addresses: [{ type: "InternalIP", address: node }] };
  lab.cluster.put("nodes", { metadata: { name: "node-1" }, status });
  lab.cluster.put("services", apiService("echo", { clusterIP: service, ports: [PORT] }));
  lab.cluster.put("endpointslices", apiSlice("echo", [endpoint], [PORT]));
  const flags = [
    "--hostname-override=node-1",
    `--cluster-cidr=${pods}`,
    "--nodeport-addresses=primary",
    "--logging-format=json",
  ];
  const run = [process.execPath, bundle, "run", ...flags, `--master=${lab.master}`];
  daemon = new RunningDaemon(lab.lab.start("node", [...through, ...run]));
  await daemon.saying("full sync");
}

/** Runs a command on the node and returns its output. */
async function printed(
  args: readonly string[],
  through: readonly [string, ...string[]] = ["env"],
): Promise<string> {
  return (await lab.lab.exec([...through, process.execPath, bundle, ...args])).stdout;
}

/**
 * Deletes the element of the Service's address, and waits until the daemon has repaired it and compared
 * everything.
 */
async function repairsAndVerifies(family: Family): Promise<void> {
  const element = `${family} nft-proxy lists { ${ADDRESSES[family].service} . tcp . 80 }`;
  await lab.nft(`delete element ${element}`);
  await daemon.saying("another program changed the rules, repaired");
  await lab.nft(`get element ${element}`);
  expect(await printed(["diff"])).toMatch(/^no difference$/m);
}

const tables = async () => (await lab.nft("list", "tables")).trim().split("\n");
const ipv6Finding = /^.*ipv6: this kernel .*$/m;

describe("a host without IPv6", () => {
  test("gets only the IPv4 table, changes to it are repaired, and doctor finds nothing missing", async () => {
    await start("ip", WITHOUT_IPV6);
    await repairsAndVerifies("ip");
    expect(await tables()).toEqual(["table ip nft-proxy"]);
    const { status } = JSON.parse((await lab.get(10256, "/healthz")).body);
    expect(Object.keys(status)).toEqual(["IPv4"]);
    expect((await printed(["doctor"], WITHOUT_IPV6)).match(ipv6Finding)?.[0]).toMatch(/^ok .*no IPv6/);
  });

  test("is reported as a fault by doctor and by explain if the cluster has IPv6", async () => {
    await start("ip6", WITHOUT_IPV6);
    expect(await tables()).toEqual(["table ip nft-proxy"]);
    expect((await printed(["doctor"], WITHOUT_IPV6)).match(ipv6Finding)?.[0]).toMatch(/^FAULT .*no IPv6/);
    const told = await printed(["explain", "[fd00:96::7]:80"]);
    expect(told.replaceAll(/\s+/g, " ")).toContain("shop/echo, but this node's kernel has no IPv6");
  });
});

test("in an IPv6 cluster, changes to the IPv6 table are repaired, and doctor finds no fault", async () => {
  await start("ip6");
  await repairsAndVerifies("ip6");
  expect(await printed(["doctor"])).toMatch(/^0 faults,/m);
});
