import { isIP } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { port, service, slice } from "../support/build.ts";
import { ProgrammedLab } from "../support/programmed-lab.ts";

// Balancing uses the packet's priority as a scratch register. Queueing disciplines read it after our last
// hook, so a separate table checks it there, after all others.

const FAMILIES = ["ip", "ip6"] as const;
const CLUSTER_IPS = { ip: "10.96.6.1", ip6: "fd00:10:96::6:1" };

let node: ProgrammedLab;
beforeAll(async () => {
  node = await ProgrammedLab.create();
  await node.program({
    services: [
      service({ name: "plain", clusterIPs: Object.values(CLUSTER_IPS) }),
      service({
        name: "sticky",
        clusterIPs: Object.values(CLUSTER_IPS),
        ports: [port(81)],
        affinitySeconds: 600,
      }),
    ],
    slices: ["plain", "sticky"].flatMap((name) => [
      slice({ service: name, endpoints: ["10.244.2.11", "10.244.2.12"] }),
      slice({ service: name, endpoints: ["fd00:244:2::11", "fd00:244:2::12"] }),
    ]),
  });
  for (const family of FAMILIES) {
    await node.nft(
      `table ${family} watch {
        counter leaks { }
        counter seen { }
        chain last {
          type filter hook postrouting priority 1000;
          ct status dnat ct state new counter name seen
          ct status dnat meta priority != 0 counter name leaks
        }
      }`,
    );
  }
});
afterAll(() => node?.close());

async function packets(family: "ip" | "ip6", counter: string): Promise<number> {
  const text = await node.nft("reset", "counter", family, "watch", counter);
  return Number(/packets (\d+)/.exec(text)?.[1]);
}

const probe = (from: "pod1" | "node", family: "ip" | "ip6", to: number) =>
  node.answers({ from, to: CLUSTER_IPS[family], port: to, proto: "tcp", n: 20 });

test.each(FAMILIES.flatMap((family) => (["pod1", "node"] as const).map((from) => [from, family] as const)))(
  "a packet of %s over %s leaves the node without our priority",
  async (from, family) => {
    for (const to of [80, 81]) expect((await probe(from, family, to)).map(isIP)).not.toContain(0);
    expect(await packets(family, "seen")).toBeGreaterThanOrEqual(40);
    expect(await packets(family, "leaks")).toBe(0);
  },
);

describe.each(FAMILIES)("an application's own priority (%s)", (family) => {
  const [address, target] =
    family === "ip" ? ["192.0.2.77", "10.244.2.11"] : ["fd00:c0::77", "fd00:244:2::11"];

  /**
   * Sets the priority before our chains see the packet, as SO_PRIORITY does, and translates the packet
   * itself, as hostPort does.
   */
  beforeAll(async () => {
    await node.nft(
      `table ${family} application {
        counter kept { }
        counter changed { }
        chain send {
          type filter hook output priority -500;
          ${family} daddr ${address} meta priority set 0:5
        }
        chain translate {
          type nat hook output priority -150;
          ${family} daddr ${address} tcp dport 8088 dnat to ${family === "ip" ? target : `[${target}]`}:8080
        }
        chain last {
          type filter hook postrouting priority 1000;
          ct original ${family} daddr ${address} ct state new meta priority 0:5 counter name kept
          ct original ${family} daddr ${address} ct state new meta priority != 0:5 counter name changed
        }
      }`,
    );
  });

  test("survives if other software translates the packet", async () => {
    const answers = await node.answers({ from: "node", to: address, port: 8088, proto: "tcp", n: 5 });
    expect(answers).toEqual([target]);
    const counted = async (name: string) =>
      Number(/packets (\d+)/.exec(await node.nft("list", "counter", family, "application", name))?.[1]);
    expect([await counted("kept"), await counted("changed")]).toEqual([5, 0]);
  });
});

test.each(FAMILIES)(
  "without the chain that resets it, our priority is seen, so this check can fail (%s)",
  async (family) => {
    await node.nft("flush", "chain", family, "nft-proxy", "filter-output");
    await probe("node", family, 81);
    expect(await packets(family, "leaks")).toBeGreaterThan(0);
  },
);
