import { BALANCING, EXTERNAL, EXTERNAL_LOCAL, SOURCE_RANGES_CHECK } from "./chain-names.ts";
import {
  BALANCERS,
  ENDPOINTS,
  HAIRPIN_CONNECTIONS,
  LISTS,
  NO_ENDPOINTS,
  SOURCE_RANGE_LISTS,
} from "./sets.ts";

/** The sets and chains for frontends of one kind. */
interface NamesOfKind {
  /** The beginning of the names of balancing chains. */
  readonly prefix: string;
  /** Frontend to list id. */
  readonly lists: string;
  /** List id to the chain that balances over the list. */
  readonly balancers: string;
  /** List id and number to endpoint; with session affinity, endpoint id and 0 or 1 to endpoint. */
  readonly endpoints: string;
  /** Frontend to the number of the list of source ranges that restricts it. */
  readonly sourceRangeLists: string;
  /** To reject or drop: from the frontend of a port, or from the list id of an interval. */
  readonly refusals: string;
  /** Connections of an endpoint to itself. */
  readonly hairpins: string;
  readonly chains: {
    readonly balancing: string;
    readonly external: string;
    readonly externalLocal: string;
    readonly sourceRangesCheck: string;
    readonly sourceRangesAllowed: string;
  };
}

/** The frontends of ports. Their maps are hash maps and are looked up first. */
interface PortKind extends NamesOfKind {
  readonly kind: "port";
}

/** Frontends whose keys end in an interval of ports. Connections keep their port, so endpoints have none. */
export interface IntervalKind extends NamesOfKind {
  readonly kind: "interval";
  /** A set of the ports at addresses that have intervals. They take precedence over intervals. */
  readonly explicitPorts: string;
}

export type FrontendKind = PortKind | IntervalKind;

export const PORTS: FrontendKind = {
  kind: "port",
  prefix: "",
  lists: LISTS,
  balancers: BALANCERS,
  endpoints: ENDPOINTS,
  sourceRangeLists: SOURCE_RANGE_LISTS,
  refusals: NO_ENDPOINTS,
  hairpins: HAIRPIN_CONNECTIONS,
  chains: {
    balancing: BALANCING,
    external: EXTERNAL,
    externalLocal: EXTERNAL_LOCAL,
    sourceRangesCheck: SOURCE_RANGES_CHECK,
    sourceRangesAllowed: "source-ranges-allowed",
  },
};

/** The kinds without those of features. */
export const PORTS_ALONE: readonly FrontendKind[] = [PORTS];

/** The kind of a frontend, by its key. */
export function kindOf(frontend: string, kinds: readonly FrontendKind[]): FrontendKind {
  const isInterval = frontend.includes("-");
  return (isInterval ? kinds.find(({ kind }) => kind === "interval") : undefined) ?? PORTS;
}

/** The equivalent for ports of a set or chain for another kind; every other name is returned unchanged. */
export function portEquivalent(name: string, kinds: readonly FrontendKind[]): string {
  for (const kind of kinds) {
    if (kind === PORTS) continue;
    const index = namesOf(kind).indexOf(name);
    if (index >= 0) return namesOf(PORTS)[index] ?? name;
    if (name.startsWith(kind.prefix)) return name.slice(kind.prefix.length);
  }
  return name;
}

function namesOf(kind: FrontendKind): readonly string[] {
  const { lists, balancers, endpoints, sourceRangeLists, refusals, hairpins, chains } = kind;
  const { balancing, external, externalLocal, sourceRangesCheck, sourceRangesAllowed } = chains;
  const ofChains = [balancing, external, externalLocal, sourceRangesCheck, sourceRangesAllowed];
  return [lists, balancers, endpoints, sourceRangeLists, refusals, hairpins, ...ofChains];
}

/** Whether a set or map is keyed by frontends. */
export function isOfFrontends(set: string, kinds: readonly FrontendKind[]): boolean {
  if (set === NO_ENDPOINTS) return true;
  return kinds.some(
    (one) =>
      set === one.lists ||
      set === one.sourceRangeLists ||
      (one.kind === "interval" && set === one.explicitPorts),
  );
}
