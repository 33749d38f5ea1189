import type { Transaction } from "../nft/ast/json.ts";
import type { ElementSet, Table } from "../nft/ast/ruleset.ts";
import { creation } from "../nft/delta.ts";
import { selectChains } from "../nft/select.ts";
import { toTransaction } from "../nft/transaction.ts";
import { balancerChain } from "./balancers.ts";
import { type Balancer, balancerName, type ChainName, REJECT_CHAIN } from "./chain-names.ts";
import type { FamilyContext } from "./node-context.ts";
import { FRONTEND_MAPS, setSpecs } from "./sets.ts";
import { staticChains } from "./static-chains.ts";

/** Something that our transactions need of nft and the kernel. */
export interface RequiredFeature {
  readonly name: string;
  /** How the reader gets it, one sentence. */
  readonly hint: string;
  /** Needs this feature and as few others as can be. */
  readonly transaction: Transaction;
}

/** All that our transactions need: as a whole, and apart, to name what is missing. */
export interface RequiredFeatures {
  readonly whole: Transaction;
  readonly features: readonly RequiredFeature[];
}

const UPGRADE = "use nft 1.1.3 or newer, or name another with --nft-path";

const CONTEXT: FamilyContext = {
  family: "ip",
  place: { name: "", zone: "" },
  nodeAddress: "",
  localTraffic: { kind: "sources", cidrs: ["10.0.0.0/8"] },
  masqueradeAll: false,
  masqueradeMark: 0x4000,
  nodePorts: { kind: "all" },
  loopbackNodePorts: false,
  serviceCIDRs: [],
  scheduler: "random",
  affinityMapSize: 1024,
  // Needs no more than dynamic maps and counters do.
  refusalLogSize: 0,
  // Needs no more than reject and sets with timeouts do.
  resetVanished: false,
  counters: "services",
};

const PLAIN: Balancer = {
  ...{ kind: "service", scheduler: "random", slots: false },
  ...{ shortcut: false, count: 2, affinitySeconds: 0 },
};
const STICKY: Balancer = { ...PLAIN, affinitySeconds: 60 };

/**
 * The features, each shown by a part of the very table that is programmed, under another name: to be checked by nft
 * (`nft -c`), not to be applied.
 */
export function requiredFeatures(): RequiredFeatures {
  const table = sampleTable();
  const parts: readonly (readonly [string, string, Table])[] = [
    ["maps with concatenated values, as the target of a dnat", UPGRADE, chainsOf(table, balancerName(PLAIN))],
    ["dynamic maps with timeouts, updated and deleted from by rules", UPGRADE, chainsOf(table, balancerName(STICKY))],
    ["verdict maps with counters", UPGRADE, countedVerdicts(table)],
    [
      "fib lookups",
      "load or build the kernel module nft_fib_ipv4 (CONFIG_NFT_FIB_IPV4)",
      chainsOf(table, "external-local"),
    ],
    [
      "masquerading with random ports",
      "load or build the kernel modules nft_chain_nat and nft_masq (CONFIG_NFT_MASQ)",
      chainsOf(table, "nat-postrouting"),
    ],
    ["reject", "load or build the kernel module nft_reject_ipv4 (CONFIG_NFT_REJECT)", chainsOf(table, REJECT_CHAIN)],
  ];
  return {
    whole: created(table),
    features: parts.map(([name, hint, part]) => ({ name, hint, transaction: created(part) })),
  };
}

function sampleTable(): Table {
  const chains = [...staticChains(CONTEXT), ...[PLAIN, STICKY].map((balancer) => balancerChain("ip", balancer))];
  const sets = setSpecs(CONTEXT).map((spec): [string, ElementSet] => [spec.name, { spec, elements: new Map() }]);
  return {
    family: "ip",
    name: "nft-proxy-probe",
    chains: new Map(chains.map((chain) => [chain.name, chain])),
    sets: new Map(sets),
  };
}

function chainsOf(table: Table, name: ChainName): Table {
  return selectChains(table, [name]);
}

function countedVerdicts(table: Table): Table {
  const { services } = FRONTEND_MAPS.service;
  const part = chainsOf(table, REJECT_CHAIN);
  const elements = new Map([["10.96.0.1 . tcp . 443", `goto ${REJECT_CHAIN}`]]);
  const spec = table.sets.get(services)?.spec;
  return spec === undefined ? part : { ...part, sets: new Map([[services, { spec, elements }]]) };
}

function created(table: Table): Transaction {
  return toTransaction([creation(table, "create")]);
}
