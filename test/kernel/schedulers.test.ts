import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Scheduler } from "../../src/features/schedulers/scheduler.ts";
import { evaluate } from "../../src/trace/evaluate.ts";
import { summarize } from "../../src/trace/outcome.ts";
import {
  type Objects,
  port,
  renderAll,
  type ServiceOptions,
  service,
  slice,
  testNodeContext,
} from "../support/build.ts";
import { LAB_NODE, packetOf } from "../support/expect.ts";
import type { Probe } from "../support/lab/outcome.ts";
import type { ProbeSource } from "../support/lab/topology.ts";
import { parseWithElements } from "../support/listed-elements.ts";
import { ProgrammedLab } from "../support/programmed-lab.ts";
import { rulesetText } from "../support/ruleset-text.ts";
import { associate } from "../support/sctp-packets.ts";

// Every scheduler with real connections, and the evaluator's prediction compared with them.

type Family = "ip" | "ip6";
const FAMILIES: readonly Family[] = ["ip", "ip6"];
const NODE = { ip: "192.0.2.2", ip6: "fd00:c0::2" } as const;
const CLIENTS: readonly ProbeSource[] = [
  ...(["pod1", "pod2", "pod3", "pod4", "pod5", "pod6"] as const),
  ...(["node", "node2", "ext", "ext2"] as const),
];
const SIGNALLING = { name: "signalling", protocol: "sctp", port: 36412 } as const;

const remote = (family: Family, count: number, first = 0) =>
  Array.from({ length: count }, (_, i) => {
    const [node, suffix] = [2 + Math.floor((first + i) / 6), 11 + ((first + i) % 6)];
    return family === "ip" ? `10.244.${node}.${suffix}` : `fd00:244:${node}::${suffix}`;
  });

const clusterIP = (family: Family, number: number) =>
  family === "ip" ? `10.96.8.${number}` : `fd00:10:96::80${number.toString(16)}`;

interface Balanced extends Pick<ServiceOptions, "external" | "affinitySeconds"> {
  readonly number: number;
  readonly scheduler?: Scheduler;
  /** The number of endpoints for each weight. The default is 4 endpoints of weight 1. */
  readonly weights?: readonly (readonly [count: number, weight: number])[];
}

const NUMBERS = {
  turn: 1,
  hash: 2,
  flow: 3,
  weighted: 4,
  drained: 5,
  onlyDrained: 6,
  stickyHash: 7,
  localHash: 8,
  weightedTurn: 9,
  stickyTurn: 10,
} as const;

const SERVICES: readonly Balanced[] = [
  { number: NUMBERS.turn, scheduler: "round-robin" },
  { number: NUMBERS.hash, scheduler: "source-hash" },
  { number: NUMBERS.flow, scheduler: "flow-hash" },
  {
    number: NUMBERS.weighted,
    weights: [
      [1, 1],
      [1, 3],
    ],
  },
  {
    number: NUMBERS.drained,
    weights: [
      [2, 1],
      [1, 0],
    ],
  },
  { number: NUMBERS.onlyDrained, weights: [[2, 0]] },
  { number: NUMBERS.stickyHash, scheduler: "source-hash", affinitySeconds: 600 },
  { number: NUMBERS.localHash, scheduler: "source-hash", external: "Local" },
  {
    number: NUMBERS.weightedTurn,
    scheduler: "round-robin",
    weights: [
      [1, 1],
      [1, 4],
    ],
  },
  { number: NUMBERS.stickyTurn, scheduler: "round-robin", affinitySeconds: 600 },
];

function objectsOf(services: readonly Balanced[], perWeight = 4): Objects {
  return {
    services: services.map(({ number, weights: _, ...options }) =>
      service({
        name: `service-${number}`,
        clusterIPs: FAMILIES.map((family) => clusterIP(family, number)),
        ports: [
          port(80, { nodePort: 30_000 + number }),
          port(53, { name: "dns", protocol: "udp" }),
          { ...SIGNALLING, nodePort: 30_000 + number },
        ],
        ...options,
      }),
    ),
    slices: services.flatMap(({ number, weights = [[perWeight, 1]] }) =>
      FAMILIES.flatMap((family) =>
        weights.map(([count, weight], i) =>
          slice({
            ...{ service: `service-${number}`, name: `${number}-${family}-${i}`, family, weight },
            endpoints: remote(
              family,
              count,
              weights.slice(0, i).reduce((sum, [each]) => sum + each, 0),
            ),
            ports: [
              { name: "", protocol: "tcp", port: 8080 },
              { name: "dns", protocol: "udp", port: 5353 },
              SIGNALLING,
            ],
          }),
        ),
      ),
    ),
  };
}

let node: ProgrammedLab;
beforeAll(async () => {
  node = await ProgrammedLab.create();
  await node.program(objectsOf(SERVICES));
});
afterAll(() => node?.close());

type Try = Omit<Probe, "id">;

/** Counts the answers of each endpoint, and other outcomes. */
async function counts(probe: Try): Promise<Record<string, number>> {
  const tally = (await node.lab.observe([{ id: "only", ...probe }])).get("only") ?? {};
  const byEndpoint: Record<string, number> = {};
  for (const [answer, count] of Object.entries(tally)) {
    const endpoint = answer.split(" ")[0] ?? "";
    byEndpoint[endpoint] = (byEndpoint[endpoint] ?? 0) + count;
  }
  return byEndpoint;
}

/** Returns the endpoints that the evaluator predicts, with their shares. */
function simulated(probe: Try, objects = objectsOf(SERVICES)): Record<string, number> {
  const tables = Object.values(renderAll(objects).state.ruleset);
  const outcomes = evaluate(tables, LAB_NODE, packetOf({ id: "only", ...probe }));
  return Object.fromEntries(
    summarize(outcomes).destinations.map(({ address, probability }) => [address, probability]),
  );
}

const tcp = (from: ProbeSource, family: Family, number: number, n = 40): Try => {
  return { from, to: clusterIP(family, number), port: 80, proto: "tcp", n };
};

test("the rules of all schedulers are listed by the kernel as they were written", async () => {
  const listed = await Promise.all(
    FAMILIES.map((family) => node.nft("-j", "list", "table", family, "nft-proxy")),
  );
  const kernel = Object.assign({}, ...listed.map((text) => parseWithElements(text)));
  expect(rulesetText(kernel)).toBe(rulesetText(renderAll(objectsOf(SERVICES)).state.ruleset));
});

describe.each(FAMILIES)("over %s,", (family) => {
  test("round-robin chooses the endpoints in turn", async () => {
    expect(Object.values(await counts(tcp("pod1", family, NUMBERS.turn)))).toEqual([10, 10, 10, 10]);
    for (const from of ["ext", "node2"] as const) {
      const nodePort: Try = { from, to: NODE[family], port: 30_001, proto: "tcp", n: 40 };
      expect(Object.values(await counts(nodePort))).toEqual([10, 10, 10, 10]);
    }
    const udp: Try = { ...tcp("pod2", family, NUMBERS.turn), port: 53, proto: "udp" };
    expect(Object.values(await counts(udp))).toEqual([10, 10, 10, 10]);
  });

  test.each(CLIENTS)(
    "source-hash sends %s to the endpoint that the evaluator predicts, on every port",
    async (from) => {
      const probe = tcp(from, family, NUMBERS.hash, 10);
      const answer = await counts(probe);
      expect(Object.keys(answer)).toEqual(Object.keys(simulated(probe)));
      expect(Object.values(answer)).toEqual([10]);
      expect(Object.keys(await counts({ ...probe, port: 53, proto: "udp" }))).toEqual(Object.keys(answer));
      const nodePort = await counts({ ...probe, to: NODE[family], port: 30_002 });
      expect(Object.keys(nodePort)).toEqual(Object.keys(answer));
    },
  );

  test("round-robin chooses the endpoints in turn for SCTP associations, at cluster IP and NodePort", async () => {
    const associations = {
      from: "pod1",
      to: clusterIP(family, NUMBERS.turn),
      port: SIGNALLING.port,
      count: 40,
    } as const;
    const inTurn = Object.fromEntries(remote(family, 4).map((address) => [address, 10]));
    expect(await associate(node.lab, associations)).toEqual(inTurn);
    const nodePort = { from: "ext", to: NODE[family], port: 30_000 + NUMBERS.turn, count: 40 } as const;
    expect(await associate(node.lab, nodePort)).toEqual(inTurn);
  });

  test("source-hash sends a client's SCTP associations to the endpoint of its TCP connections", async () => {
    for (const from of ["pod1", "pod2", "node2"] as const) {
      const associations = { from, to: clusterIP(family, NUMBERS.hash), port: SIGNALLING.port, count: 10 };
      const [endpoint = ""] = Object.keys(simulated(tcp(from, family, NUMBERS.hash)));
      expect(await associate(node.lab, associations)).toEqual({ [endpoint]: 10 });
    }
  });

  test("source-hash does not send all clients to one endpoint", async () => {
    const answers = await Promise.all(CLIENTS.map((from) => simulated(tcp(from, family, NUMBERS.hash))));
    expect(new Set(answers.flatMap((shares) => Object.keys(shares))).size).toBeGreaterThan(1);
  });

  test("flow-hash spreads the connections of a client over all endpoints", async () => {
    const answer = await counts(tcp("pod1", family, NUMBERS.flow, 120));
    expect(Object.keys(answer).sort()).toEqual(remote(family, 4).sort());
    expect(Math.min(...Object.values(answer))).toBeGreaterThan(10);
  });

  test("random balancing shares connections by weight", async () => {
    const [light = "", heavy = ""] = remote(family, 2);
    const answer = await counts(tcp("pod1", family, NUMBERS.weighted, 400));
    // 100 of 400 expected, with a standard deviation of 9.
    expect(answer[light]).toBeGreaterThan(55);
    expect(answer[light]).toBeLessThan(145);
    const shares = simulated(tcp("pod1", family, NUMBERS.weighted));
    expect(shares[light]).toBeCloseTo(0.25, 1);
    expect(shares[heavy]).toBeCloseTo(0.75, 1);
  });

  test("round-robin shares turns by weight exactly", async () => {
    const slots = 251;
    const answer = await counts(tcp("pod1", family, NUMBERS.weightedTurn, slots));
    const shares = simulated(tcp("pod1", family, NUMBERS.weightedTurn));
    // All at once, so that the answers show whether a missing turn timed out or went to another endpoint.
    const expected = Object.entries(shares).map(([address, share]) => [address, Math.round(share * slots)]);
    expect(answer).toEqual(Object.fromEntries(expected));
  });

  test("a drained endpoint gets no connections, unless all are drained", async () => {
    expect(Object.keys(await counts(tcp("pod1", family, NUMBERS.drained))).sort()).toEqual(
      remote(family, 2).sort(),
    );
    expect(Object.keys(await counts(tcp("pod1", family, NUMBERS.onlyDrained))).sort()).toEqual(
      remote(family, 2).sort(),
    );
  });

  test("session affinity keeps the endpoint that the scheduler has chosen", async () => {
    const probe = tcp("pod3", family, NUMBERS.stickyHash, 10);
    expect(Object.keys(await counts(probe))).toEqual(Object.keys(simulated(probe)));
    const inTurn = await Promise.all(
      (["pod1", "pod2", "pod3", "pod4"] as const).map((from) =>
        counts(tcp(from, family, NUMBERS.stickyTurn, 5)),
      ),
    );
    for (const answer of inTurn) expect(Object.values(answer)).toEqual([5]);
    expect(new Set(inTurn.flatMap((answer) => Object.keys(answer))).size).toBe(4);
  });

  test("pods bypass external Local policy with the same hash", async () => {
    const probe: Try = { from: "pod2", to: NODE[family], port: 30_008, proto: "tcp", n: 10 };
    expect(Object.keys(await counts(probe))).toEqual(
      Object.keys(simulated(tcp("pod2", family, NUMBERS.hash))),
    );
    expect(await counts({ ...probe, from: "ext", n: 2 })).toEqual({ timeout: 2 });
  });
});

test("with source-hash, clients of a deleted endpoint and few others move", async () => {
  const fewer: readonly Balanced[] = [{ number: NUMBERS.hash, scheduler: "source-hash" }];
  const before = objectsOf(fewer, 4);
  const after = objectsOf(fewer, 3);
  await node.program(before);
  const gone = remote("ip", 4)[3] as string;
  const probes = CLIENTS.map((from) => tcp(from, "ip", NUMBERS.hash, 5));
  const first = await Promise.all(probes.map(async (probe) => Object.keys(await counts(probe)).join()));
  await node.program(after);
  const second = await Promise.all(probes.map(async (probe) => Object.keys(await counts(probe)).join()));
  expect(second).toEqual(probes.map((probe) => Object.keys(simulated(probe, after)).join()));
  first.forEach((answer, i) => {
    if (answer !== gone) expect(second[i]).toBe(answer);
  });
  await node.program(objectsOf(SERVICES), testNodeContext());
});
