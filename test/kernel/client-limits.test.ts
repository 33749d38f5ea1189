import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { ClientLimits } from "../../src/features/client-limits/limits.ts";
import { CLIENT_CONNECTIONS, CLIENT_RATES, rules } from "../../src/features/client-limits/rules.ts";
import { readRefusals } from "../../src/features/refusal-record/refused-set.ts";
import { nftProgram } from "../../src/kernel/nft.ts";
import { missingFeatures } from "../../src/kernel/probe.ts";
import { rebuildTransaction } from "../../src/nft/transaction.ts";
import { partFeatures } from "../../src/ruleset/required-features.ts";
import { LISTS } from "../../src/ruleset/sets.ts";
import { evaluate } from "../../src/trace/evaluate.ts";
import {
  localEndpoint,
  type Objects,
  port,
  renderAll,
  type ServiceOptions,
  slicePort,
  testNodeContext,
} from "../support/build.ts";
import { LAB_NODE, packetOf } from "../support/expect.ts";
import { HeldConnection, serveEcho } from "../support/held-connection.ts";
import { nftOf } from "../support/lab/nft-of.ts";
import type { Probe } from "../support/lab/outcome.ts";
import { addressesOf, type MachineName } from "../support/lab/topology.ts";
import { nftTables } from "../support/nft-tables.ts";
import { objects } from "../support/packet-table.ts";
import { PATIENCE } from "../support/patience.ts";
import { ProgrammedLab } from "../support/programmed-lab.ts";

// Client limits with real connections. Pod 2 echoes at port 7000: connections that are held go there.

const [IP, IP6] = ["10.96.8.1", "fd00:10:96::8:1"] as const;
const [EXTERNAL, EXTERNAL6] = ["203.0.113.80", "fd00:1b::80"] as const;
const GUARDED = "203.0.113.81";
const ENDPOINT = { ip: "10.244.1.12", ip6: "fd00:244:1::12" } as const;
const LIMITS: ClientLimits = { connections: 2 };
const RANGE = { first: 8080, last: 8081 };

const web: ServiceOptions = {
  name: "web",
  clusterIPs: [IP, IP6],
  externalIPs: [EXTERNAL, EXTERNAL6],
  loadBalancerIPs: [GUARDED],
  sourceRanges: ["192.0.2.1/32", "10.0.0.0/8"],
  ports: [
    port(80, { name: "tcp", nodePort: 30_080, ranges: [RANGE] }),
    port(53, { name: "udp", protocol: "udp" }),
  ],
};

/** The Service with limits, and one without. */
function withLimits(limits: ClientLimits | undefined): Objects {
  const ports = [slicePort(7000, { name: "tcp" }), slicePort(53, { name: "udp", protocol: "udp" })];
  const own = limits === undefined ? web : { ...web, clientLimits: limits };
  const other: ServiceOptions = { name: "other", clusterIPs: ["10.96.8.2"], ports: [port(80)] };
  return objects(
    [
      own,
      { ports, endpoints: [localEndpoint(ENDPOINT.ip)] },
      { ports, endpoints: [localEndpoint(ENDPOINT.ip6)] },
    ],
    [other, { ports: [slicePort(7000)], endpoints: [localEndpoint(ENDPOINT.ip)] }],
  );
}

let node: ProgrammedLab;
beforeAll(async () => {
  node = await ProgrammedLab.create();
  await serveEcho(node.lab, "pod2", 7000);
});
afterAll(() => node?.close());

async function hold(
  from: MachineName,
  count: number,
  address: string = IP,
  number = 80,
): Promise<HeldConnection[]> {
  const ends = Array.from({ length: count }, () => [from, address, number] as const);
  return [...(await HeldConnection.openAll(node.lab, ends))];
}

async function closeAll(held: readonly HeldConnection[]): Promise<void> {
  await Promise.all(held.map((one) => one.close()));
}

const tcp = { port: 80, proto: "tcp", n: 1 } as const;
const udp = { port: 53, proto: "udp", n: 1 } as const;

type Client = Omit<Probe, "id" | "from"> & { readonly from: MachineName };

/** The outcome of one new connection; one that is served is answered. */
async function outcome({ from, to, port: number, proto }: Client): Promise<string> {
  if (proto === "udp") {
    const { result } = await node.outcome({ from, to, port: number, proto, n: 1 });
    return result === "ok" ? "served" : result;
  }
  try {
    await closeAll(await hold(from, 1, to, number));
    return "served";
  } catch (error) {
    return String(error).includes("ECONNREFUSED") ? "refused" : String(error);
  }
}

/** As many connections as a limit of two allows: by the client, to each of these addresses. */
const HELD: readonly (readonly [from: MachineName, ...to: string[]])[] = [
  ["pod3", IP, EXTERNAL],
  ["pod3", IP6, IP6],
  ["ext", EXTERNAL, EXTERNAL],
  ["node", IP, IP],
  ["pod2", IP, IP],
];

/** Further connections, while the others are held. */
const REFUSED_ROWS: readonly (readonly [shows: string, probe: Client])[] = [
  ["by a pod, with connections to two addresses", { ...tcp, from: "pod3", to: IP }],
  ["over IPv6", { ...tcp, from: "pod3", to: IP6 }],
  ["by a client from outside", { ...tcp, from: "ext", to: EXTERNAL }],
  ["to a NodePort", { ...tcp, from: "ext", to: "192.0.2.2", port: 30_080 }],
  ["to a NodePort over IPv6", { ...tcp, from: "pod3", to: "fd00:c0::2", port: 30_080 }],
  ["to an address with source ranges", { ...tcp, from: "ext", to: GUARDED }],
  ["to a port range", { ...tcp, from: "pod3", to: IP, port: 8080 }],
  ["to a port range from outside", { ...tcp, from: "ext", to: EXTERNAL, port: 8081 }],
  ["by the node", { ...tcp, from: "node", to: IP }],
  ["by an endpoint to itself", { ...tcp, from: "pod2", to: IP }],
];

const SERVED_ROWS: readonly (readonly [shows: string, probe: Client])[] = [
  ["by another client", { ...tcp, from: "pod4", to: IP }],
  ["to another port of the Service", { ...udp, n: 2, from: "pod3", to: IP }],
  ["to a Service without limits", { ...tcp, from: "pod3", to: "10.96.8.2" }],
];

describe("beside the connections that a limit allows", () => {
  const { ruleset } = renderAll(withLimits(LIMITS)).state;
  let seen: ReadonlyMap<string, { readonly result: string }>;
  let held: readonly HeldConnection[] = [];

  beforeAll(async () => {
    await node.program(withLimits(LIMITS));
    const ends = HELD.flatMap(([from, ...addresses]) => addresses.map((to) => [from, to, 80] as const));
    held = await HeldConnection.openAll(node.lab, ends);
    seen = await node.lab.probe(REFUSED_ROWS.map(([id, probe]) => ({ id, ...probe })));
  });
  afterAll(() => closeAll(held));

  /** The outcomes of a packet by the evaluator, after these connections. */
  function evaluated(probe: Client): readonly string[] {
    const entries = HELD.map(([from, to = "", ...others]) => {
      const family = to.includes(":") ? "ip6" : "ip";
      const id = Number(ruleset[family]?.sets.get(LISTS)?.elements.get(`${to} . tcp . 80`));
      const client = packetOf({ ...tcp, id: "", from, to }).from.address;
      const key = `${id - (id % 4)} . 2 . ${client}`;
      return { family, map: CLIENT_CONNECTIONS, key, value: String(1 + others.length) } as const;
    });
    const packet = packetOf({ ...probe, id: "" });
    return [...new Set(evaluate(Object.values(ruleset), LAB_NODE, packet, entries).map(({ kind }) => kind))];
  }

  test.each(REFUSED_ROWS)("another one is reset %s", (shows, probe) => {
    expect(evaluated(probe), "by the evaluator").toEqual(["refused"]);
    expect(seen.get(shows)?.result, "in the kernel").toBe("refused");
  });

  test.each(SERVED_ROWS)("one is served %s", async (_shows, probe) => {
    expect(evaluated(probe), "by the evaluator").toEqual(["delivered"]);
    expect(await outcome(probe), "in the kernel").toBe("served");
  });

  test("a UDP flow is dropped when its client has two", async () => {
    const probe = { ...udp, from: "pod5", to: IP } as const;
    expect([await outcome(probe), await outcome(probe), await outcome(probe)]).toEqual([
      "served",
      "served",
      "timeout",
    ]);
  });
});

/** The clients that the kernel counts connections of. */
async function counting(set: string): Promise<number> {
  const listing = JSON.parse(await node.nft("-j", "list", "set", "ip", "nft-proxy", set));
  return listing.nftables[1].set.elem?.length ?? 0;
}

test("a closed connection no longer counts towards the limit, and refused connections never count", async () => {
  await node.program(objects());
  await node.program(withLimits(LIMITS));
  const first = await hold("pod3", 1);
  const second = await hold("pod3", 1);
  const attempts = Array.from(
    { length: 30 },
    (_, n) => ({ ...tcp, id: String(n), from: "pod3", to: IP }) as const,
  );
  for (const { result } of (await node.lab.probe(attempts)).values()) expect(result).toBe("refused");
  await closeAll(first);
  const third = await hold("pod3", 1);
  expect(await outcome({ ...tcp, from: "pod3", to: IP })).toBe("refused");
  await closeAll([...second, ...third]);
  await vi.waitFor(async () => expect(await counting(CLIENT_CONNECTIONS)).toBe(0), PATIENCE);
});

test("counts survive a restart and a rebuild, and restart from zero with another limit", async () => {
  await node.program(withLimits(LIMITS));
  const held = await hold("pod3", 2);
  await node.program(withLimits(LIMITS));
  expect(await outcome({ ...tcp, from: "pod3", to: IP })).toBe("refused");
  await node.lab.loadTransaction(
    JSON.stringify(rebuildTransaction(renderAll(withLimits(LIMITS)).state.ruleset)),
  );
  expect(await outcome({ ...tcp, from: "pod3", to: IP })).toBe("refused");
  await node.follow(withLimits({ connections: 1 }));
  const anew = await hold("pod3", 1);
  expect(await outcome({ ...tcp, from: "pod3", to: IP })).toBe("refused");
  await node.follow(withLimits(undefined));
  expect(await outcome({ ...tcp, from: "pod3", to: IP })).toBe("served");
  await expect(counting(CLIENT_CONNECTIONS)).rejects.toThrow("No such file");
  await Promise.all([...held, ...anew].map((one) => one.stillAnswered()));
  await node.follow(withLimits(LIMITS));
  expect(await node.differences()).toEqual([]);
  await closeAll([...held, ...anew]);
});

test("new connections beyond a client's burst are refused, and those of other clients are served", async () => {
  const limits: ClientLimits = { connections: 9, rate: { amount: 3, per: "hour", burst: 3 } };
  await node.program(withLimits(limits));
  const tallies = async (probe: Omit<Probe, "id">) =>
    (await node.lab.observe([{ ...probe, id: "only", wait: 0.5 }])).get("only");
  const six = { from: "pod3", to: IP, port: 53, proto: "udp", n: 6 } as const;
  const seen = await tallies(six);
  // A probe ends after its second timeout.
  expect(Object.values(seen ?? {}).toSorted()).toEqual([2, 3]);
  expect(seen?.timeout).toBe(2);
  expect(await outcome({ ...udp, from: "pod4", to: IP })).toBe("served");
  expect(Object.values((await tallies({ ...six, to: IP6 })) ?? {}).toSorted()).toEqual([2, 3]);
  expect(await outcome({ ...tcp, from: "pod3", to: IP })).toBe("served");
  expect(await counting(CLIENT_RATES)).toBe(3);
  await node.program(withLimits(limits));
  expect(await tallies(six)).toEqual({ timeout: 2 });
});

test("further clients are served when the set is full", async () => {
  const small = testNodeContext({ settings: { maxLimitedClients: 1 } });
  await node.program(objects(), small);
  await node.program(withLimits({ connections: 1 }), small);
  const held = await hold("pod3", 1);
  expect(await outcome({ ...tcp, from: "pod3", to: IP })).toBe("refused");
  held.push(...(await hold("pod4", 2)));
  expect(await outcome({ ...tcp, from: "pod4", to: IP })).toBe("served");
  expect(await outcome({ ...tcp, from: "pod3", to: IP })).toBe("refused");
  await closeAll(held);
});

test("refusals are recorded with the address that the client connected to", async () => {
  await node.program(objects());
  await node.program(withLimits({ connections: 1 }));
  const held = await hold("pod3", 1);
  await outcome({ ...tcp, from: "pod3", to: EXTERNAL });
  await closeAll(held);
  const entries = await readRefusals(nftTables(nftOf(node.lab)), ["ip"], Date.now());
  const { v4: client } = addressesOf("pod3");
  expect(entries?.filter((entry) => entry.client === client && entry.address === EXTERNAL)).toMatchObject([
    { protocol: "tcp", port: 80 },
  ]);
});

test("connections count again when their Service has endpoints again", async () => {
  // Without port ranges, for which a Service port keeps its list id.
  const to = "10.96.8.3";
  const one: ServiceOptions = { name: "one", clusterIPs: [to], clientLimits: { connections: 1 } };
  const served = objects([one, { ports: [slicePort(7000)], endpoints: [localEndpoint(ENDPOINT.ip)] }]);
  await node.program(objects());
  await node.follow(served);
  const held = await hold("pod3", 1, to);
  await node.follow(objects([one]));
  await node.follow(served);
  expect(await outcome({ ...tcp, from: "pod3", to })).toBe("refused");
  expect(await outcome({ ...tcp, from: "pod4", to })).toBe("served");
  await closeAll(held);
});

test("clients of a deleted Service do not count for the next one", async () => {
  await node.program(objects());
  await node.follow(withLimits({ connections: 1 }));
  const held = await hold("pod3", 1);
  await node.follow(objects());
  const next: ServiceOptions = { name: "next", clusterIPs: ["10.96.8.3"], clientLimits: { connections: 1 } };
  await node.follow(objects([next, { ports: [slicePort(7000)], endpoints: [localEndpoint(ENDPOINT.ip)] }]));
  expect(await outcome({ ...tcp, from: "pod3", to: "10.96.8.3" })).toBe("served");
  await closeAll(held);
});

test("the probe detects that the kernel supports limits, and changes nothing", async () => {
  expect(
    await missingFeatures(nftProgram({ path: "nft" }), partFeatures(rules, rules.needs)),
  ).toBeUndefined();
  const lacking = nftProgram({ path: "false" });
  expect(await missingFeatures(lacking, partFeatures(rules, rules.needs))).toMatchObject({
    message: expect.stringContaining("limits of connections in sets"),
  });
});
