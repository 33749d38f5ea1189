import { fileURLToPath } from "node:url";
import { execaSync } from "execa";
import { describe, expect, test } from "vitest";
import type { Command, Transaction } from "../../src/nft/ast/json.ts";
import { diffRuleset } from "../../src/nft/delta.ts";
import { rebuildTransaction, toTransaction } from "../../src/nft/transaction.ts";
import {
  type ContextOptions,
  endpoint,
  localEndpoint,
  type Objects,
  port,
  renderAll,
  type ServiceOptions,
  service,
  slice,
  testNodeContext,
} from "../support/build.ts";
import { townRuleset } from "../support/town-ruleset.ts";

/** A cluster that shows one feature. After `vitest -u` has updated the goldens, read the difference. */
interface SmallCluster {
  readonly name: string;
  readonly objects: Objects;
  readonly context?: ContextOptions;
}

const everywhere = slice({ endpoints: [localEndpoint("10.244.1.11"), endpoint("10.244.2.12")] });
const elsewhere = slice({ endpoints: ["10.244.2.12"] });

function cluster(name: string, options: ServiceOptions, slices = [everywhere]): SmallCluster {
  return { name, objects: { services: [service(options)], slices } };
}

const nodePort = { ports: [port(80, { nodePort: 30080 })] };
const balanced: ServiceOptions = { loadBalancerIPs: ["203.0.113.10"] };

const CLUSTERS: readonly SmallCluster[] = [
  cluster("cluster-ip", {}),
  cluster("node-port", nodePort),
  cluster("session-affinity", { affinitySeconds: 10800 }),
  cluster("external-local", { ...balanced, external: "Local" }),
  cluster("external-local-session-affinity", { ...balanced, external: "Local", affinitySeconds: 600 }),
  cluster("external-local-without-local-endpoint", { ...nodePort, external: "Local" }, [elsewhere]),
  cluster("source-ranges", {
    ...balanced,
    sourceRanges: ["198.51.100.0/25", "198.51.100.128/25", "192.0.2.0/24"],
  }),
  cluster("port-ranges", {
    ports: [port(80, { ranges: [{ first: 8000, last: 8099 }] }), port(8050, { name: "explicit" })],
  }),
  cluster("client-limits", {
    clientLimits: { connections: 100, rate: { amount: 20, per: "second", burst: 40 } },
  }),
  cluster("connection-timeouts", {
    connectionTimeouts: { "tcp-established": 7200 },
  }),
  cluster("no-endpoints", { ...nodePort, externalIPs: ["203.0.113.1"] }, []),
  cluster(
    "dual-stack",
    { clusterIPs: ["10.96.0.10", "fd00:10:96::10"], ports: [port(53, { protocol: "udp" })] },
    [
      slice({ ports: [{ name: "", protocol: "udp", port: 5353 }], endpoints: ["10.244.2.12"] }),
      slice({ ports: [{ name: "", protocol: "udp", port: 5353 }], endpoints: ["fd00:244:2::12"] }),
    ],
  ),
  {
    ...cluster("answer-ping", { ...balanced, sourceRanges: ["192.0.2.0/24"], external: "Local" }, [
      elsewhere,
    ]),
    context: { settings: { answerPing: true } },
  },
  { name: "pods-by-bridge", objects: {}, context: { localTraffic: { kind: "interface", pattern: "cni0" } } },
  {
    name: "pods-by-interface-prefix",
    objects: {},
    context: { localTraffic: { kind: "interface", pattern: "veth*" } },
  },
  { name: "pods-unknown", objects: {}, context: { localTraffic: { kind: "unknown" } } },
  {
    name: "masquerade-all-all-node-ports",
    objects: {},
    context: { masqueradeAll: true, nodePorts: { kind: "all" } },
  },
];

const nothing = renderAll({}).state.ruleset;
const empty = rebuildTransaction(nothing);

/** Returns the commands that the cluster adds to the rules of a cluster without Services. */
function addition({ objects, context }: SmallCluster): Transaction {
  return toTransaction(diffRuleset(nothing, renderAll(objects, testNodeContext(context)).state.ruleset));
}

/**
 * Checks commands on top of the rules of a cluster without Services. Returns the message of nft, or "" if it
 * accepts them.
 */
function complaint(commands: readonly Command[]): string {
  const input = JSON.stringify({ nftables: [...empty.nftables, ...commands] });
  const { exitCode, stderr } = execaSync("nft", ["-j", "-c", "-f", "-"], { input, reject: false });
  return exitCode === 0 ? "" : stderr || `exit ${exitCode}`;
}

/** Formats a transaction with one line for each command. */
function lines({ nftables }: Transaction): string {
  return `{ "nftables": [\n${nftables.map((command) => JSON.stringify(command)).join(",\n")}\n] }\n`;
}

const golden = (name: string) => fileURLToPath(new URL(`../fixtures/golden/${name}.json`, import.meta.url));

describe("the golden transaction", () => {
  test("of a cluster without Services is accepted by nft", async () => {
    await expect(lines(empty)).toMatchFileSnapshot(golden("no-services"));
    expect(complaint([])).toBe("");
  });

  // Other tests read this transaction, and the listings that nft 1.1.3 gives for it. If it changed, record
  // the listings again, in test/fixtures/town by `scripts/in-namespace.sh sh`:
  //   nft -j -f transaction.json
  //   nft -j list table ip nft-proxy >listed.ip.json (the same for ip6)
  //   nft list table ip nft-proxy >listed.ip.nft
  test("of the recorded town is accepted by nft", async () => {
    const transaction = rebuildTransaction(townRuleset("town"));
    const path = fileURLToPath(new URL("../fixtures/town/transaction.json", import.meta.url));
    await expect(lines(transaction)).toMatchFileSnapshot(path);
    expect(complaint(transaction.nftables)).toBe("");
  });

  test.each(CLUSTERS)("$name is accepted by nft", async (given) => {
    const transaction = addition(given);
    await expect(lines(transaction)).toMatchFileSnapshot(golden(given.name));
    expect(complaint(transaction.nftables)).toBe("");
  });
});

test.each([
  [
    "a chain that does not exist",
    /goto":\{"target":"balance-2"/g,
    'goto":{"target":"balance-3"',
    "No such file",
  ],
  ["an unknown protocol", /"tcp"/g, '"ip-over-pigeons"', "protocol name"],
  ["a set that does not exist", /@endpoints/g, "@endpointz", "did you mean map 'endpoints'"],
])("nft refuses a golden transaction with %s", (_, what, by, complains) => {
  const [clusterIP] = CLUSTERS;
  const damaged = JSON.stringify(addition(clusterIP as SmallCluster)).replaceAll(what, by);
  expect(complaint((JSON.parse(damaged) as Transaction).nftables)).toContain(complains);
});
