import { afterAll, beforeAll, expect, test } from "vitest";
import { DEFAULT_PASSIVE_HEALTH_CHECK } from "../../src/features/passive-health-checks/check.ts";
import { WATCH_SETS } from "../../src/features/passive-health-checks/rules.ts";
import { TABLE_NAME } from "../../src/nft/ast/ruleset.ts";
import { localEndpoint, port, service, slice, slicePort } from "../support/build.ts";
import type { ProbeSource } from "../support/lab/topology.ts";
import { ProgrammedLab } from "../support/programmed-lab.ts";

// Tests what the kernel counts for passive health checks. Each Service has one endpoint.

const NODE = "192.0.2.2";
const NODE_PORT = 30_040;
const ANSWERED = [5, 5, 0];
// A client of the lab gives up after two failures.
const REFUSED = [2, 0, 2];
const SILENT = [2, 0, 0];

/** Connections, their endpoint, and how many were tried, answered and reset. */
type Row = readonly [title: string, from: ProbeSource, address: string, port: number, counts: number[]];

const ROWS: readonly Row[] = [
  ["of a pod to a pod of another node", "pod1", "10.244.2.11", 8080, ANSWERED],
  ["of a pod to a pod of this node, IPv6", "pod1", "fd00:244:1::12", 8080, ANSWERED],
  ["of a pod to itself", "pod1", "10.244.1.11", 8080, ANSWERED],
  ["of the node to a pod", "node", "10.244.1.12", 8080, ANSWERED],
  ["of the node to itself", "node", NODE, 8080, ANSWERED],
  ["of a pod to the node", "pod1", NODE, 8081, ANSWERED],
  ["from outside to a pod", "ext", "10.244.1.13", 8080, ANSWERED],
  ["of a pod to a closed port", "pod1", "10.244.2.12", 9999, REFUSED],
  ["of the node to a closed port of its own", "node", NODE, 9999, REFUSED],
  ["of a pod to an address that does not resolve", "pod1", "192.0.2.77", 8080, SILENT],
  ["of the node to an address that does not resolve", "node", "192.0.2.78", 8080, SILENT],
];

let node: ProgrammedLab;
beforeAll(async () => {
  node = await ProgrammedLab.create();
  const services = ROWS.map(([, , address], index) =>
    service({
      name: `shop/web${index}`,
      clusterIPs: [frontend(index, address)],
      ports: [port(80, { nodePort: NODE_PORT + index })],
      passiveHealthCheck: DEFAULT_PASSIVE_HEALTH_CHECK,
    }),
  );
  const slices = ROWS.map(([, , address, number], index) =>
    slice({
      service: `shop/web${index}`,
      endpoints: [localEndpoint(address)],
      ports: [slicePort(number)],
    }),
  );
  await node.program({ services, slices });
});
afterAll(() => node?.close());

const isV6 = (address: string) => address.includes(":");
const frontend = (index: number, address: string) =>
  isV6(address) ? `fd00:10:96::${index + 1}` : `10.96.7.${index + 1}`;

/** Returns the packets that each of the three sets counted for an endpoint. */
async function counts(address: string, number: number): Promise<number[]> {
  const family = isV6(address) ? "ip6" : "ip";
  const listings = await Promise.all(
    WATCH_SETS.map((set) => node.nft("list", "set", family, TABLE_NAME, set)),
  );
  return listings.map((listing) =>
    Number(listing.split(`${address} . ${number} counter packets `)[1]?.split(" ")[0]),
  );
}

test.each(ROWS.map((row, index) => [...row, index] as const))(
  "connections %s are counted once each",
  async (_, from, address, number, expected, index) => {
    const [to, at] = from === "ext" ? [NODE, NODE_PORT + index] : [frontend(index, address), 80];
    await node.outcome({ from, to, port: at, proto: "tcp", n: 5 });
    expect(await counts(address, number)).toEqual(expected);
  },
);
