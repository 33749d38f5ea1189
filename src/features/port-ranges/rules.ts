import type { DataType, SetSpec } from "../../nft/ast/ruleset.ts";
import { intervalCount } from "../../ruleset/element-count.ts";
import type { IntervalKind } from "../../ruleset/frontend-kinds.ts";
import type { FamilyContext, RulesetPart } from "../../ruleset/node-context.ts";
import { addressType, frontendMap, PLAIN } from "../../ruleset/set-specs.ts";
import { Claims } from "./claims.ts";
import { FEATURE, PORT_RANGES_ANNOTATION, rangesOf } from "./parse.ts";

/** The sets and chains for port ranges. Their maps of intervals exist only while a Service has ranges. */
export const RANGES: IntervalKind = {
  kind: "interval",
  prefix: "range-",
  lists: "range-lists",
  balancers: "range-balancers",
  endpoints: "range-endpoints",
  sourceRangeLists: "range-source-range-lists",
  /** Keyed by list id, so that a change of readiness changes one element, however many ranges there are. */
  refusals: "range-empty-lists",
  /** Connections of an endpoint to itself at any port: its address twice. */
  hairpins: "range-hairpins",
  explicitPorts: "range-explicit-ports",
  chains: {
    balancing: "range-balancing",
    external: "range-external",
    externalLocal: "range-external-local",
    sourceRangesCheck: "range-source-ranges-check",
    sourceRangesAllowed: "range-source-ranges-allowed",
  },
};

/**
 * At which addresses port ranges are served. `virtual`: at all but the node's own, whose programs keep their
 * ports.
 */
export const PORT_RANGE_ADDRESSES = ["virtual", "all"] as const;

/** One of {@link PORT_RANGE_ADDRESSES}. */
export type PortRangeAddresses = (typeof PORT_RANGE_ADDRESSES)[number];

/** The options of the proxy. Ranges are counted at each address. */
interface Settings {
  readonly portRanges?: PortRangeAddresses;
  /** Maximum number of ranges of all Services in a family; one namespace may have half of them. */
  readonly maxPortRanges?: number;
}

/**
 * Maximum number of ranges of one Service in both families, and the default for all Services. The kernel
 * copies all ranges of a family for each change of one: 2,000 take 30 ms, 20,000 0.3 s (6.18).
 */
const MOST_OF_SERVICE = 2000;
export const MOST_RANGES = 10_000;

export const rules: RulesetPart = {
  name: FEATURE,
  specs,
  intervals: {
    kind: RANGES,
    intervalsOf: rangesOf,
    areVirtual,
    divide: (frontends, lost) => new Claims(frontends, lost),
  },
  budget: {
    text: "its port ranges",
    topic: "port ranges",
    event: "PortRangesNotServed",
    annotation: PORT_RANGES_ANNOTATION,
    amountOf: ({ service }, context) => intervalCount(service, context),
    limitOf: ({ settings }) => (settings as Settings).maxPortRanges ?? MOST_RANGES,
    ofService: { limit: MOST_OF_SERVICE, words: ["port ranges at all of its addresses"] },
    // Counted with the other elements of frontends.
    elements: 0,
    what: "port ranges at addresses of a family (--max-port-ranges)",
  },
};

/** Whether ranges are served at the addresses that are not the node's own alone. */
export function areVirtual({ settings }: Pick<FamilyContext, "settings">): boolean {
  return ((settings as Settings).portRanges ?? "virtual") === "virtual";
}

function specs(context: FamilyContext): SetSpec[] {
  const address = addressType(context.family);
  const key: DataType[] = [address, "inet_proto", "inet_service"];
  return [
    { ...PLAIN, name: RANGES.hairpins, key: [address, address] },
    { ...PLAIN, name: RANGES.sourceRangeLists, key, value: ["classid"], interval: true },
    { ...PLAIN, name: RANGES.refusals, key: ["classid"], value: "verdict" },
    { ...PLAIN, name: RANGES.explicitPorts, key },
    { ...frontendMap("lists", context), name: RANGES.lists, key, value: ["classid"], interval: true },
    { ...PLAIN, name: RANGES.balancers, key: ["classid"], value: "verdict" },
    {
      ...frontendMap("endpoints", context),
      name: RANGES.endpoints,
      key: ["classid", "integer"],
      value: [address],
    },
  ];
}
