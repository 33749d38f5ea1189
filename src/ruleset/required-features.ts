import { MAX_SERVICE_ELEMENTS, SHARED_BUDGET } from "../model/budgets.ts";
import type { LastStatement, Rule, Transaction } from "../nft/ast/json.ts";
import type { Chain, SetSpec, Table } from "../nft/ast/ruleset.ts";
import { creation } from "../nft/delta.ts";
import { selectChains } from "../nft/select.ts";
import { toTransaction } from "../nft/transaction.ts";
import { balancerChain, rememberChain } from "./balancers.ts";
import { type Balancer, balancerName, REJECT_CHAIN, type StaticChainName } from "./chain-names.ts";
import { FIRST_ENDPOINT_DRAW, RANDOM } from "./draws.ts";
import { PORTS } from "./frontend-kinds.ts";
import { LEAST_REGISTER_VALUE, MOST_STICKY_PORTS } from "./list-ids.ts";
import type { FamilyContext, FeatureNeeds, RulesetPart } from "./node-context.ts";
import { SOURCE_RANGES_PART, setSpecs, sourceRangesSpecs } from "./set-specs.ts";
import { LISTS } from "./sets.ts";
import { staticChains } from "./static-chains.ts";

/** A feature of nft and the kernel that our transactions need. */
export interface RequiredFeature {
  readonly name: string;
  /** How to get it, in one sentence. */
  readonly hint: string;
  /** A transaction that needs this feature and few others. */
  readonly transaction: Transaction;
}

/** Everything that our transactions need: as a whole, and separately to name missing features. */
export interface RequiredFeatures {
  readonly whole: Transaction;
  readonly features: readonly RequiredFeature[];
}

const PROBE_TABLE = "nft-proxy-probe";

const UPGRADE = "use nft 1.1.3 or newer, or set --nft-path to another program";

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
  apiServers: [],
  affinityMapSize: 1024,
  maxAffinitySeconds: 60,
  maxServiceElements: MAX_SERVICE_ELEMENTS,
  ...SHARED_BUDGET,
  maxStickyPorts: MOST_STICKY_PORTS,
  // Not required: see partFeatures.
  features: [],
  lacking: [],
  settings: {},
};

const PLAIN: Balancer = { method: RANDOM, count: 2, affinitySeconds: 0, local: false };
const STICKY: Balancer = { ...PLAIN, affinitySeconds: 60, local: true, bothLists: true };

/**
 * The required features. Each has a sample of the programmed table under another name, which `nft -c` checks.
 */
export function requiredFeatures(): RequiredFeatures {
  const table = sampleTable();
  const feature = (name: string, hint: string, part: Table) => ({ name, hint, transaction: created(part) });
  const ofChain = (name: string, hint: string, chain: string) =>
    feature(name, hint, selectChains(table, [chain]));
  return {
    whole: created({ ...table, sets: new Map([...table.sets, ...countedMap(table).sets]) }),
    features: [
      ofChain("dnat to a map lookup by a random number", UPGRADE, balancerName(PLAIN, PORTS)),
      ofChain(
        "dynamic maps with timeouts that rules update and delete from",
        UPGRADE,
        balancerName(STICKY, PORTS),
      ),
      feature("maps with counters", UPGRADE, countedMap(table)),
      ofChain(
        "fib lookups",
        "load or build the kernel module nft_fib_ipv4 (CONFIG_NFT_FIB_IPV4)",
        "external-local",
      ),
      ofChain(
        "masquerading with random ports",
        "load or build the kernel modules nft_chain_nat and nft_masq (CONFIG_NFT_MASQ)",
        "nat-postrouting",
      ),
      ofChain("reject", "load or build the kernel module nft_reject_ipv4 (CONFIG_NFT_REJECT)", REJECT_CHAIN),
    ],
  };
}

/** What a feature needs. The daemon works without it if nft or the kernel lacks this. */
export function partFeatures(part: RulesetPart, needs: FeatureNeeds): RequiredFeatures {
  const { family } = CONTEXT;
  const { name, hint, release, sample } = needs;
  const all = staticChains(CONTEXT);
  const base = (name: StaticChainName, rules: readonly Rule[]): Chain => {
    return { ...all.find((chain) => chain.name === name), name, rules };
  };
  const parts = sample?.() ?? [];
  const own = parts.map(({ chain }) => chain);
  const objects = parts.flatMap(({ object }) => object ?? []);
  const jumps = own.map((chain): Rule => [{ jump: { target: chain.name } }]);
  const chains: Chain[] = [
    ...(part.chains?.(CONTEXT) ?? []),
    ...own,
    base("nat-prerouting", jumps),
    ...(part.onKnown === undefined ? [] : [base("filter-forward", [[part.onKnown]])]),
  ];
  const transaction = created({
    ...tableOf(part.specs?.(CONTEXT) ?? [], chains),
    ...(objects.length > 0 && { timeouts: new Map(objects.map((object) => [object.name, object])) }),
    ...(part.flowtable && { flowtable: part.flowtable(family) }),
  });
  const features = [
    { name, hint, transaction },
    ...(release === undefined ? [] : [{ ...release, transaction: using(release.statement) }]),
  ];
  return { whole: { nftables: features.flatMap((one) => one.transaction.nftables) }, features };
}

/** Uses a statement in a chain of its own. */
function using(statement: LastStatement): Transaction {
  const place = { family: CONTEXT.family, table: PROBE_TABLE };
  return {
    nftables: [
      { add: { table: { family: place.family, name: place.table } } },
      { add: { chain: { ...place, name: REJECT_CHAIN } } },
      { add: { rule: { ...place, chain: REJECT_CHAIN, expr: [statement] } } },
    ],
  };
}

/** A table with everything that Services can need. */
function sampleTable(): Table {
  const { family } = CONTEXT;
  const chains = [
    ...staticChains(CONTEXT, new Set([SOURCE_RANGES_PART])),
    ...[{ ...PLAIN, ...FIRST_ENDPOINT_DRAW }, PLAIN, STICKY].map((one) => balancerChain(family, one)),
    rememberChain(family, 60, true),
  ];
  return tableOf([...setSpecs(CONTEXT), ...sourceRangesSpecs(CONTEXT)], chains);
}

function tableOf(specs: readonly SetSpec[], chains: readonly Chain[]): Table {
  return {
    family: CONTEXT.family,
    name: PROBE_TABLE,
    chains: new Map(chains.map((chain) => [chain.name, chain])),
    sets: new Map(specs.map((spec) => [spec.name, { spec, elements: new Map() }])),
  };
}

function countedMap(table: Table): Table {
  const spec = table.sets.get(LISTS)?.spec;
  const elements = new Map([["10.96.0.1 . tcp . 443", String(LEAST_REGISTER_VALUE)]]);
  const sets = new Map(spec === undefined ? [] : [[LISTS, { spec: { ...spec, counter: true }, elements }]]);
  return { ...table, chains: new Map(), sets };
}

function created(table: Table): Transaction {
  return toTransaction([creation(table, "create")]);
}
