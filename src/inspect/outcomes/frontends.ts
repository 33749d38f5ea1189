import { FAMILIES, type Family } from "../../base/family.ts";
import { sortedEntries } from "../../base/first-sorted.ts";
import { INTERVALS } from "../../features/frontends.ts";
import type { Protocol } from "../../model/ids.ts";
import { familyOf, isLoopback } from "../../model/ip.ts";
import type { AnyTable } from "../../nft/ast/any-table.ts";
import { joinParts } from "../../nft/elements.ts";
import { CLUSTER_IPS_CHECK } from "../../ruleset/chain-names.ts";
import { ANY_ADDRESS, parseFrontendKey } from "../../ruleset/keys.ts";
import { CLUSTER_IPS, LISTS, NO_ENDPOINTS, NODEPORT_IPS, SOURCE_RANGE_LISTS } from "../../ruleset/sets.ts";
import { comparedAddresses } from "./compared-addresses.ts";

/** An address and port at which connections are compared. */
export interface ComparedFrontend {
  readonly family: Family;
  /**
   * `unserved`: a cluster IP, at a port that no Service serves. `unallocated`: an address at an end of a
   * ServiceCIDR, which no Service has.
   */
  readonly kind: "address" | "node-port" | "unserved" | "unallocated";
  /**
   * The frontend's key in nft-proxy's maps: `10.96.0.10 . tcp . 53`, or `0.0.0.0 . tcp . 30080` for a
   * NodePort. Of an interval, the first and the last are compared.
   */
  readonly key: string;
  readonly address: string;
  readonly port: number;
  readonly protocol: Protocol;
}

/** kube-proxy's map from frontends to the chains with their source ranges. */
export const KUBE_PROXY_FIREWALL_IPS = "firewall-ips";

/** The maps with frontends, nft-proxy's and kube-proxy's. */
const FRONTEND_MAPS = [
  LISTS,
  NO_ENDPOINTS,
  SOURCE_RANGE_LISTS,
  KUBE_PROXY_FIREWALL_IPS,
  "service-ips",
  "external-ips",
];
const INTERVAL_MAPS = INTERVALS === undefined ? [] : [INTERVALS.kind.lists, INTERVALS.kind.sourceRangeLists];
/** kube-proxy's maps of NodePorts: their keys have no address. */
const KUBE_PROXY_NODEPORT_MAPS = ["service-nodeports", "no-endpoint-nodeports"];

/**
 * Maximum number of the node's addresses tried for each NodePort, among those that both sides treat alike.
 */
const MOST_NODE_ADDRESSES = 4;

/** A port that Services rarely have: tcpmux. */
const UNSERVED_PORT = 1;

/**
 * Lists the frontends in tables of nft-proxy or kube-proxy, sorted.
 * @param localAddresses the node's own addresses, where NodePorts may be served
 */
export function comparedFrontends(
  tables: readonly AnyTable[],
  localAddresses: Iterable<string>,
): ComparedFrontend[] {
  const found = new Map<string, ComparedFrontend>();
  const local = [...localAddresses].filter((address) => !isLoopback(address));
  const add = (frontend: ComparedFrontend) => {
    found.set(joinParts(frontend.family, frontend.address, frontend.protocol, frontend.port), frontend);
  };
  for (const family of FAMILIES) {
    const own = tables.filter((table) => table.family === family);
    const unserved = (kind: "unserved" | "unallocated", address: string) => {
      const key = joinParts(address, "tcp", UNSERVED_PORT);
      add({ family, kind, key, address, port: UNSERVED_PORT, protocol: "tcp" });
    };
    for (const address of comparedAddresses(own, "daddr", (chain) => chain === CLUSTER_IPS_CHECK)) {
      unserved("unallocated", address);
    }
    for (const address of keysOf(own, [CLUSTER_IPS])) unserved("unserved", address);
    const ofFamily = local.filter((address) => familyOf(address) === family);
    const nodeAddresses = nodePortAddresses(own, ofFamily);
    for (const key of frontendKeys(family, own)) {
      const { address: fixed, port: first, lastPort: last = first, protocol: name } = parseFrontendKey(key);
      const kind = fixed === undefined ? "node-port" : "address";
      const protocol = name as Protocol;
      // Of an interval, the first and the last.
      for (const address of fixed === undefined ? nodeAddresses : [fixed])
        for (const port of [first, last]) add({ family, kind, key, address, port, protocol });
    }
  }
  return sortedEntries(found).map(([, frontend]) => frontend);
}

/** Returns the addresses at which only one of the tables serves NodePorts, and some of the others. */
function nodePortAddresses(tables: readonly AnyTable[], local: readonly string[]): readonly string[] {
  const served = tables.map((table) => keysOf([table], [NODEPORT_IPS]));
  const all = new Set([...served.flatMap((addresses) => [...addresses]), ...local]);
  const isSame = (address: string) => new Set(served.map((addresses) => addresses.has(address))).size === 1;
  const same = [...all].filter(isSame);
  return [...[...all].filter((address) => !isSame(address)), ...same.slice(0, MOST_NODE_ADDRESSES)];
}

/**
 * Returns the keys of frontends. Of several at one address and port, the last has it: intervals come first,
 * then NodePorts, as an address of the node may belong to a Service, too.
 */
function frontendKeys(family: Family, tables: readonly AnyTable[]): readonly string[] {
  const nodePorts = [...keysOf(tables, KUBE_PROXY_NODEPORT_MAPS)].map((key) =>
    joinParts(ANY_ADDRESS[family], key),
  );
  const keys = [...nodePorts, ...keysOf(tables, FRONTEND_MAPS)];
  const isNodePort = (key: string) => parseFrontendKey(key).address === undefined;
  const others = keys.filter((key) => !isNodePort(key));
  return [...keysOf(tables, INTERVAL_MAPS), ...keys.filter(isNodePort), ...others];
}

function keysOf(tables: readonly AnyTable[], names: readonly string[]): ReadonlySet<string> {
  return new Set(
    tables.flatMap(({ sets }) => names.flatMap((name) => [...(sets.get(name)?.elements.keys() ?? [])])),
  );
}
