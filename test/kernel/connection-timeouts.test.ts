import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { rules } from "../../src/features/connection-timeouts/rules.ts";
import type { ConnectionTimeouts } from "../../src/features/connection-timeouts/timeouts.ts";
import { nftProgram } from "../../src/kernel/nft.ts";
import { missingFeatures } from "../../src/kernel/probe.ts";
import { partFeatures } from "../../src/ruleset/required-features.ts";
import {
  localEndpoint,
  type Objects,
  port,
  type ServiceOptions,
  slicePort,
  testNodeContext,
} from "../support/build.ts";
import { HeldConnection, serveEcho } from "../support/held-connection.ts";
import { HeldFlow } from "../support/held-flow.ts";
import type { NamespaceName } from "../support/lab/topology.ts";
import { answered, objects, packetTable, refused } from "../support/packet-table.ts";
import { PATIENCE } from "../support/patience.ts";
import { ProgrammedLab } from "../support/programmed-lab.ts";

// What conntrack counts down for connections of Services with timeouts. Each list has values of its own.

let node: ProgrammedLab;
beforeAll(async () => {
  node = await ProgrammedLab.create();
  await serveEcho(node.lab, "pod1", 7000);
});
afterAll(() => node?.close());

const PORTS = [
  port(7000, { name: "tcp", nodePort: 30_070 }),
  port(53, { name: "udp", protocol: "udp", nodePort: 30_053 }),
  // Nobody answers here.
  port(54, { name: "dead", protocol: "udp" }),
];
const SLICE_PORTS = [
  slicePort(7000, { name: "tcp" }),
  slicePort(53, { name: "udp", protocol: "udp" }),
  slicePort(9, { name: "dead", protocol: "udp" }),
];
const [OWN, OWN6] = ["10.244.1.11", "fd00:244:1::11"];

const TIMED: ServiceOptions = {
  name: "timed",
  clusterIPs: ["10.96.6.1", "fd00:10:96::6:1"],
  loadBalancerIPs: ["203.0.113.60", "fd00:1b::60"],
  ports: PORTS,
  connectionTimeouts: { "tcp-established": 7000, "udp-stream": 4000, udp: 1000 },
};
const EQUAL: ServiceOptions = {
  ...TIMED,
  name: "equal",
  clusterIPs: ["10.96.6.2"],
  loadBalancerIPs: [],
  ports: plain(),
};
const OTHER: ServiceOptions = {
  ...EQUAL,
  name: "other",
  clusterIPs: ["10.96.6.3"],
  connectionTimeouts: { "tcp-established": 17_000, "udp-stream": 14_000 },
};
const STICKY: ServiceOptions = { ...EQUAL, name: "sticky", clusterIPs: ["10.96.6.4"], affinitySeconds: 600 };
const { connectionTimeouts: _, ...untimed } = EQUAL;
const UNTIMED: ServiceOptions = { ...untimed, name: "untimed", clusterIPs: ["10.96.6.5"] };
const RANGED: ServiceOptions = {
  ...EQUAL,
  name: "ranged",
  clusterIPs: ["10.96.6.6"],
  ports: [port(80, { name: "tcp", ranges: [{ first: 7000, last: 7001 }] })],
  connectionTimeouts: { "tcp-established": 27_000 },
};

function plain() {
  return PORTS.map((one) => ({ ...one, nodePort: 0 }));
}

/** Returns the objects of these Services, with the pod of this node as their endpoint. */
function served(...services: readonly ServiceOptions[]): Objects {
  const slices = [OWN, OWN6].map((address) => ({
    ports: SLICE_PORTS,
    endpoints: [localEndpoint(address ?? "")],
  }));
  return objects(...services.map((options) => [options, ...slices] as const));
}

const ALL = served(TIMED, EQUAL, OTHER, STICKY, UNTIMED, RANGED);

/** Returns the seconds that conntrack has left for each connection of a client to an address. */
async function left(protocol: "tcp" | "udp", to: string, ...filter: readonly string[]): Promise<number[]> {
  const family = to.includes(":") ? "ipv6" : "ipv4";
  const { stdout } = await node.lab.exec([
    "conntrack",
    "-L",
    "-f",
    family,
    "-p",
    protocol,
    "--orig-dst",
    to,
    ...filter,
  ]);
  return [...stdout.matchAll(/^\w+ +\d+ (\d+) /gm)].map(([, seconds]) => Number(seconds));
}

/** Returns a matcher for what is left of a timeout that began a moment ago, on a slow machine, too. */
const of = (seconds: number) => ({
  asymmetricMatch: (is: unknown) =>
    typeof is === "number" && is <= seconds && is > seconds - Math.max(25, seconds / 10),
});

async function expectLeft(
  protocol: "tcp" | "udp",
  to: string,
  seconds: number,
  ...filter: readonly string[]
) {
  await expect.poll(() => left(protocol, to, ...filter), PATIENCE).toEqual([of(seconds)]);
}

/** Opens connections, reads what is left of each, and ends them. */
async function held(
  ends: readonly (readonly [from: NamespaceName, to: string, port: number])[],
  use: (all: readonly HeldConnection[]) => Promise<void>,
): Promise<void> {
  await node.lab.exec(["conntrack", "-F"]);
  const all = await HeldConnection.openAll(node.lab, ends);
  try {
    await use(all);
  } finally {
    for (const one of all) await one.end();
  }
}

const NODE_PORT = ["192.0.2.2", "fd00:c0::2"] as const;

describe("a Service with timeouts", () => {
  beforeAll(() => node.program(ALL));

  test.each([
    ["the cluster IP, from a pod", "pod2", "10.96.6.1", 7000, 7000],
    ["the cluster IP, from a pod, over IPv6", "pod2", "fd00:10:96::6:1", 7000, 7000],
    ["the cluster IP, from the node", "node", "10.96.6.1", 7000, 7000],
    ["the cluster IP, from the node, over IPv6", "node", "fd00:10:96::6:1", 7000, 7000],
    ["the cluster IP, from the endpoint itself", "pod1", "10.96.6.1", 7000, 7000],
    ["the NodePort, from outside", "ext", NODE_PORT[0], 30_070, 7000],
    ["the NodePort, from outside, over IPv6", "ext", NODE_PORT[1], 30_070, 7000],
    ["the load-balancer IP, from outside", "ext", "203.0.113.60", 7000, 7000],
    ["the load-balancer IP, from outside, over IPv6", "ext", "fd00:1b::60", 7000, 7000],
    ["the load-balancer IP, from another node", "node2", "203.0.113.60", 7000, 7000],
    ["a Service with the same list", "pod2", "10.96.6.2", 7000, 7000],
    ["a Service with another list", "pod2", "10.96.6.3", 7000, 17_000],
    ["a Service with session affinity", "pod2", "10.96.6.4", 7000, 7000],
    ["a Service without timeouts", "pod2", "10.96.6.5", 7000, 432_000],
    ["a port of a range", "pod2", "10.96.6.6", 7000, 27_000],
  ] as const)("gives TCP connections its timeout: %s", async (_, from, to, number, seconds) => {
    await held([[from, to, number]], () => expectLeft("tcp", to, seconds));
  });

  test.each([
    ["the cluster IP", "10.96.6.1", 53, 4000],
    ["the cluster IP, over IPv6", "fd00:10:96::6:1", 53, 4000],
    ["a Service with another list", "10.96.6.3", 53, 14_000],
    ["a Service without timeouts", "10.96.6.5", 53, 120],
    ["a port without an answer", "10.96.6.1", 54, 1000],
    ["a port without an answer, over IPv6", "fd00:10:96::6:1", 54, 1000],
    ["a port without an answer, with the node's own timeout", "10.96.6.3", 54, 30],
  ] as const)("gives UDP flows its timeouts: %s", async (_, to, number, seconds) => {
    await node.lab.exec(["conntrack", "-F"]);
    if (number === 53) {
      const flow = new HeldFlow(node.lab, "pod2", to, number);
      await flow.answeredBy(to.includes(":") ? (OWN6 ?? "") : (OWN ?? ""));
    } else {
      const send = `require("node:dgram").createSocket("${to.includes(":") ? "udp6" : "udp4"}").send("?", ${number}, "${to}", () => process.exit())`;
      await node.lab.mustRun("pod3", [process.execPath, "-e", send], { timeoutMs: PATIENCE.timeout });
    }
    // conntrack prolongs a flow as a stream after two seconds.
    await expectLeft("udp", to, seconds, "--orig-port-dst", String(number));
  });

  test("takes one object and one chain for each distinct list of a protocol", async () => {
    const text = await node.nft("list", "table", "ip", "nft-proxy");
    const names = (kind: string) =>
      [...text.matchAll(new RegExp(`^\\t${kind} (timeouts-\\w+)`, "gm"))].map(([, name]) => name).sort();
    expect(names("chain")).toEqual(names("ct timeout"));
    // TCP: of three lists; UDP: of two.
    expect(names("chain")).toHaveLength(5);
    expect(await node.differences()).toEqual([]);
  });
});

describe("a changed list of timeouts", () => {
  const withTimeouts = (connectionTimeouts: ConnectionTimeouts | undefined) => {
    const { connectionTimeouts: __, ...rest } = EQUAL;
    return served(connectionTimeouts === undefined ? rest : { ...rest, connectionTimeouts });
  };
  const [CLUSTER_IP, PORT] = ["10.96.6.2", 7000];
  const client = (address: string) => ["--orig-src", address];

  test("applies to new connections, and earlier ones get the node's timeouts with their next packet", async () => {
    await node.program(withTimeouts({ "tcp-established": 7000 }));
    await held([["pod2", CLUSTER_IP, PORT]], async ([before]) => {
      await expectLeft("tcp", CLUSTER_IP, 7000);
      await node.follow(withTimeouts({ "tcp-established": 17_000 }));
      expect(await node.differences()).toEqual([]);
      await before?.stillAnswered();
      await expectLeft("tcp", CLUSTER_IP, 432_000, ...client("10.244.1.12"));
      const after = await HeldConnection.open(node.lab, "pod3", CLUSTER_IP, PORT);
      await expectLeft("tcp", CLUSTER_IP, 17_000, ...client("10.244.1.13"));
      await after.end();
    });
  });

  test("leaves connections of other Services with the same list as they are", async () => {
    const both = (connectionTimeouts: ConnectionTimeouts) => {
      const [changed, kept] = [
        withTimeouts(connectionTimeouts),
        served({ ...EQUAL, name: "kept", clusterIPs: ["10.96.6.9"] }),
      ];
      return {
        services: [...(changed.services ?? []), ...(kept.services ?? [])],
        slices: [...(changed.slices ?? []), ...(kept.slices ?? [])],
      };
    };
    await node.program(both(EQUAL.connectionTimeouts ?? {}));
    await held([["pod2", "10.96.6.9", PORT]], async ([kept]) => {
      await node.follow(both({ "tcp-established": 17_000 }));
      await kept?.stillAnswered();
      await expectLeft("tcp", "10.96.6.9", 7000);
    });
  });

  test("leaves nothing behind when it is removed", async () => {
    const listing = () => node.nft("-t", "list", "table", "ip", "nft-proxy");
    await node.program(withTimeouts(undefined));
    const without = await listing();
    await node.follow(withTimeouts({ "tcp-established": 7000, udp: 9 }));
    expect(await listing()).toContain("connection-timeouts");
    await node.follow(withTimeouts(undefined));
    expect(await node.differences()).toEqual([]);
    expect(await listing()).toBe(without);
    await held([["pod2", CLUSTER_IP, PORT]], () => expectLeft("tcp", CLUSTER_IP, 432_000));
  });
});

packetTable(() => node, "a Service with timeouts", ALL, testNodeContext(), [
  {
    ...{ shows: "is served at a port", from: "pod3", to: "10.96.6.1", port: 53, proto: "udp", n: 4 },
    expected: answered("kept", `${OWN} 53`),
  },
  {
    ...{ shows: "is served over IPv6", from: "pod3", to: "fd00:10:96::6:1", port: 53, proto: "udp", n: 4 },
    expected: answered("kept", `${OWN6} 53`),
  },
  {
    ...{ shows: "is served at its NodePort", from: "ext", to: "192.0.2.2", port: 30_053, proto: "udp", n: 4 },
    expected: answered("node", `${OWN} 53`),
  },
  {
    ...{ shows: "refuses other ports", from: "pod3", to: "10.96.6.1", port: 55, proto: "udp", n: 2 },
    expected: refused,
  },
]);

test("the probe detects that the kernel supports timeouts, and changes nothing", async () => {
  const nft = nftProgram({ path: "nft" });
  expect(await missingFeatures(nft, partFeatures(rules, rules.needs))).toBeUndefined();
  const lacking = nftProgram({ path: "false" });
  expect(await missingFeatures(lacking, partFeatures(rules, rules.needs))).toMatchObject({
    message: expect.stringContaining("connection timeouts"),
  });
});
