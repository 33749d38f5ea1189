import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ByFamily, FAMILIES, type Family } from "../../src/base/family.ts";
import { port, service, slice, testNodeContext } from "../support/build.ts";
import { addressesOf } from "../support/lab/topology.ts";
import { ProgrammedLab } from "../support/programmed-lab.ts";

// In our maps a NodePort has the address 0.0.0.0 or ::. A packet to this address must not be treated as one
// to a NodePort, because it would bypass the list of addresses that serve NodePorts. No socket sends such a
// packet, so a separate table writes the address into other packets before connection tracking and our chains
// see them.

const NODE_PORT = 30_080;
const UNSPECIFIED: ByFamily<string> = { ip: "0.0.0.0", ip6: "::" };
const HOOKS = { ext: "prerouting", node: "output" } as const;
/** The client's packets are routed to the node, and the node's packets to another node. */
const RECEIVERS = { ext: "node", node: "node2" } as const;

type Sender = keyof typeof HOOKS;

const SENDERS: readonly Sender[] = ["ext", "node"];
const ROWS = SENDERS.flatMap((from) => FAMILIES.map((family) => [from, family] as const));

const OBJECTS = {
  services: [
    service({ clusterIPs: ["10.96.8.1", "fd00:10:96::81"], ports: [port(80, { nodePort: NODE_PORT })] }),
  ],
  slices: [slice({ endpoints: ["10.244.2.11"] }), slice({ endpoints: ["fd00:244:2::11"] })],
};

function addressOf(machine: "ext" | "node" | "node2", family: Family): string {
  const { v4, v6 } = addressesOf(machine);
  return family === "ip" ? v4 : v6;
}

/**
 * Chains that write the address into a sender's packets, count packets to it, and count those that we
 * translated.
 */
function chainsFor(sender: Sender, family: Family): string {
  const packet = `${family} daddr ${addressOf(RECEIVERS[sender], family)} tcp dport ${NODE_PORT}`;
  const original = `ct original ${family} saddr ${addressOf(sender, family)} ct original ${family} daddr ${UNSPECIFIED[family]}`;
  return `
    counter seen-${sender} { }
    counter translated-${sender} { }
    chain rewrite-${sender} {
      type filter hook ${HOOKS[sender]} priority -350;
      ${packet} ${family} daddr set ${UNSPECIFIED[family]}
    }
    chain see-${sender} { type filter hook ${HOOKS[sender]} priority -150; ${original} counter name seen-${sender}; }
    chain leave-${sender} {
      type filter hook postrouting priority 1000;
      ${original} ct status dnat counter name translated-${sender}
    }`;
}

let node: ProgrammedLab;
beforeAll(async () => {
  node = await ProgrammedLab.create();
  for (const family of FAMILIES) {
    await node.nft(
      `table ${family} unspecified {${SENDERS.map((sender) => chainsFor(sender, family)).join("")}\n}`,
    );
  }
});
afterAll(() => node?.close());

async function hasCounted(name: string, family: Family): Promise<boolean> {
  const text = await node.nft("reset", "counter", family, "unspecified", name);
  return Number(/packets (\d+)/.exec(text)?.[1]) > 0;
}

/**
 * Sends packets to the unspecified address and the NodePort. Returns the senders and families that were seen
 * and translated, such as `ext ip`.
 */
async function send(): Promise<Record<string, { readonly seen: boolean; readonly translated: boolean }>> {
  await node.lab.observe(
    ROWS.map(([from, family]) => {
      const to = addressOf(RECEIVERS[from], family);
      return { id: `${from} ${family}`, from, to, port: NODE_PORT, proto: "tcp", n: 1 };
    }),
  );
  const counted = ROWS.map(async ([from, family]) => {
    const [seen, translated] = [
      await hasCounted(`seen-${from}`, family),
      await hasCounted(`translated-${from}`, family),
    ];
    return [`${from} ${family}`, { seen, translated }] as const;
  });
  return Object.fromEntries(await Promise.all(counted));
}

const ofAll = (fate: { readonly seen: boolean; readonly translated: boolean }) =>
  Object.fromEntries(ROWS.map(([from, family]) => [`${from} ${family}`, fate]));

describe("a packet to the unspecified address and a NodePort", () => {
  test.each([
    ["one address", testNodeContext()],
    ["all addresses", testNodeContext({ nodePorts: { kind: "all" } })],
  ])("is not translated if NodePorts are served on %s", async (_, nodeContext) => {
    await node.program(OBJECTS, nodeContext);
    expect(await send()).toEqual(ofAll({ seen: true, translated: false }));
  });

  test("is translated without the rule that returns it, so this check can fail", async () => {
    await node.program(OBJECTS);
    for (const family of FAMILIES) {
      const chain = await node.nft("-a", "list", "chain", family, "nft-proxy", "services");
      const [, handle = ""] = /daddr (?:0\.0\.0\.0|::) return # handle (\d+)/.exec(chain) ?? [];
      await node.nft("delete", "rule", family, "nft-proxy", "services", "handle", handle);
    }
    expect(await send()).toEqual(ofAll({ seen: true, translated: true }));
  });
});
