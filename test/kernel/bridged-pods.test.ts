import { execa, execaSync } from "execa";
import { afterAll, beforeAll, expect, test } from "vitest";
import { rebuildTransaction } from "../../src/nft/transaction.ts";
import { renderAll, service, slice, testNodeContext } from "../support/build.ts";

// Two pods on one bridge whose packets pass the IP hooks (br_netfilter). The bridge forwards packets that are
// translated to one of its pods, so IP forwarding does not reset their priority. Resets leave through the
// bridge and bypass connection tracking, which would translate them.

const FAMILIES = ["ip", "ip6"] as const;
const CLUSTER_IPS = { ip: "10.96.6.1", ip6: "fd00:10:96::6:1" };
const PODS = {
  client: { ip: "10.50.0.2", ip6: "fd00:50::2" },
  server: { ip: "10.50.0.3", ip6: "fd00:50::3" },
};
const GATEWAY = { ip: "10.50.0.1", ip6: "fd00:50::1" };

const SERVER = `require("node:net").createServer((socket) => socket.on("error", () => {}).write("hello")).listen(8080, "::", () => console.log("up"))`;
const client = (address: string) =>
  `require("node:net").connect(80, "${address}").setTimeout(3000, () => process.exit(2)).on("error", () => process.exit(1)).on("data", () => process.exit(0))`;

const held = (address: string) =>
  `const socket = require("node:net").connect(80, "${address}").on("data", () => console.log("open"))
  socket.on("error", ({ code }) => process.exit(console.log(code)))
  process.stdin.on("data", () => socket.write("x"))`;

const netns = (name: string, ...argv: string[]) => execaSync("ip", ["netns", "exec", name, ...argv]);
const ip = (...argv: string[]) => execaSync("ip", argv);

function addPod(name: keyof typeof PODS): void {
  ip("netns", "add", name);
  ip("link", "add", `b-${name}`, "netns", "bridged", "type", "veth", "peer", "eth0", "netns", name);
  netns("bridged", "ip", "link", "set", `b-${name}`, "master", "br0", "up");
  netns(name, "ip", "address", "add", `${PODS[name].ip}/24`, "dev", "eth0");
  netns(name, "ip", "address", "add", `${PODS[name].ip6}/64`, "dev", "eth0", "nodad");
  netns(name, "ip", "link", "set", "eth0", "up");
  netns(name, "ip", "route", "add", "default", "via", GATEWAY.ip);
  netns(name, "ip", "route", "add", "default", "via", GATEWAY.ip6);
}

/**
 * Counts TCP packets that left the bridge with a priority. It ignores others, because the kernel gives its
 * own neighbour discovery a priority.
 */
function leaks(): number {
  const { stdout } = netns("bridged", "nft", "reset", "counter", "bridge", "watch", "leaks");
  return Number(/packets (\d+)/.exec(stdout)?.[1]);
}

const startServer = () =>
  execa("ip", ["netns", "exec", "server", process.execPath, "--eval", SERVER], { reject: false });

let server: ReturnType<typeof startServer> | undefined;
beforeAll(async () => {
  ip("netns", "add", "bridged");
  netns("bridged", "ip", "link", "add", "br0", "type", "bridge");
  netns("bridged", "ip", "address", "add", `${GATEWAY.ip}/24`, "dev", "br0");
  netns("bridged", "ip", "address", "add", `${GATEWAY.ip6}/64`, "dev", "br0", "nodad");
  netns("bridged", "ip", "link", "set", "br0", "up");
  for (const setting of [
    "bridge.bridge-nf-call-iptables",
    "bridge.bridge-nf-call-ip6tables",
    "ipv4.ip_forward",
  ]) {
    netns("bridged", "sh", "-c", `echo 1 > /proc/sys/net/${setting.replace(".", "/")}`);
  }
  netns("bridged", "sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding");
  addPod("client");
  addPod("server");
  const { ruleset } = renderAll(
    {
      services: [service({ clusterIPs: Object.values(CLUSTER_IPS) })],
      slices: FAMILIES.map((family) => slice({ endpoints: [PODS.server[family]] })),
    },
    testNodeContext({ localTraffic: { kind: "unknown" }, resetVanished: true }),
  ).state;
  execaSync("ip", ["netns", "exec", "bridged", "nft", "-j", "-f", "-"], {
    input: JSON.stringify(rebuildTransaction(ruleset)),
  });
  netns(
    "bridged",
    "nft",
    `table bridge watch {
      counter leaks { }
      chain last {
        type filter hook postrouting priority 1000;
        meta l4proto tcp meta priority != 0 counter name leaks
      }
    }`,
  );
  server = startServer();
  await new Promise((resolve) => server?.stdout?.once("data", resolve));
});
afterAll(() => {
  server?.kill("SIGKILL");
  for (const name of ["client", "server", "bridged"])
    execaSync("ip", ["netns", "delete", name], { reject: false });
});

const connect = async (family: "ip" | "ip6"): Promise<number | undefined> =>
  (
    await execa("ip", ["netns", "exec", "client", process.execPath, "--eval", client(CLUSTER_IPS[family])], {
      reject: false,
    })
  ).exitCode;

test.each(FAMILIES)(
  "a packet balanced within a bridge leaves the bridge without our priority (%s)",
  async (family) => {
    expect(await connect(family)).toBe(0);
    expect(leaks()).toBe(0);
  },
);

test.each(FAMILIES)("a client on a bridge is reset after its endpoint vanished (%s)", async (family) => {
  const connection = execa("ip", [
    "netns",
    "exec",
    "client",
    process.execPath,
    "--eval",
    held(CLUSTER_IPS[family]),
  ]);
  await new Promise((resolve) => connection.stdout.once("data", resolve));
  netns(
    "bridged",
    "nft",
    "add",
    "element",
    family,
    "nft-proxy",
    "vanished",
    `{ ${PODS.server[family]} . 8080 }`,
  );
  connection.stdin.write("now");
  expect((await connection).stdout).toContain("ECONNRESET");
  netns("bridged", "nft", "flush", "set", family, "nft-proxy", "vanished");
});

test.each(FAMILIES)(
  "without the chain that resets it, our priority is seen on the bridge, so this check can fail (%s)",
  async (family) => {
    netns("bridged", "nft", "flush", "chain", family, "nft-proxy", "filter-forward");
    expect(await connect(family)).toBe(0);
    expect(leaks()).toBeGreaterThan(0);
  },
);
