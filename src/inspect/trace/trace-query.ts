import { AppError } from "../../base/errors.ts";
import { FAMILIES, type Family } from "../../base/family.ts";
import type { Protocol } from "../../model/ids.ts";
import { familyOf } from "../../model/ip.ts";
import { parseFrontendKey } from "../../ruleset/keys.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import { isNamed, type ServiceArgument } from "../explain/query.ts";
import type { PacketSelection } from "./trace-rules.ts";

/** The packets that `trace` is asked for: all that is given must be true. */
export interface TraceQuery {
  readonly to?: string;
  readonly port?: number;
  readonly protocol?: Protocol;
  readonly service?: ServiceArgument;
  readonly fromAddress?: string;
  /** Packets from this address, and, unless a destination is given, those to it. */
  readonly client?: string;
}

/** The most selections that are traced: each is a rule that every packet of its family meets. */
const MOST_SELECTIONS = 100;

/** The packets to trace, and how many frontends were too many. */
export interface Selected {
  readonly selections: readonly PacketSelection[];
  readonly omitted: number;
}

/**
 * The selections of packets that a query comes to, as many as can be traced.
 * @throws AppError BAD_ARGUMENT as {@link selectionsOf}
 */
export function selectedPackets(query: TraceQuery, state: RulesetState): Selected {
  const all = selectionsOf(query, state);
  return { selections: all.slice(0, MOST_SELECTIONS), omitted: Math.max(all.length - MOST_SELECTIONS, 0) };
}

/**
 * The selections of packets that a query comes to.
 * @throws AppError BAD_ARGUMENT when it asks for nothing, for addresses of two families, or for a Service without rules
 */
function selectionsOf(query: TraceQuery, state: RulesetState): PacketSelection[] {
  const source = query.fromAddress ?? query.client;
  const destinations = destinationsOf(query, state);
  const selections = destinations
    .filter(({ family }) => source === undefined || familyOf(source) === family)
    .map((destination) => ({ ...destination, ...(source === undefined ? {} : { source }) }));
  if (selections.length === 0) throw new AppError("BAD_ARGUMENT", "the addresses are of different families");
  const isOpen = query.to === undefined && query.service === undefined;
  if (query.client === undefined || !isOpen || query.port !== undefined) return selections;
  return [...selections, { family: familyOf(query.client), destination: query.client }];
}

function destinationsOf(query: TraceQuery, state: RulesetState): PacketSelection[] {
  const { to, service, protocol, port, fromAddress, client } = query;
  if (service !== undefined) return frontends(service, state);
  const ports = {
    ...(protocol === undefined ? {} : { protocol }),
    ...(port === undefined ? {} : { destinationPort: port }),
  };
  if (to !== undefined) return [{ family: familyOf(to), destination: to, ...ports }];
  if (port === undefined && fromAddress === undefined && client === undefined) {
    throw new AppError("BAD_ARGUMENT", "say which packets to trace: --to, --port, --service, --from-ip or --client");
  }
  return FAMILIES.map((family) => ({ family, ...ports }));
}

function frontends(service: ServiceArgument, state: RulesetState): PacketSelection[] {
  const selections = FAMILIES.flatMap((family) => {
    const rules = [...(state.families[family]?.allServicePortRules() ?? [])];
    return rules
      .filter(({ port }) => isNamed(port, service))
      .flatMap((one) => one.frontends.map(({ key }) => selectionOf(family, key)));
  });
  if (selections.length > 0) return selections;
  throw new AppError("BAD_ARGUMENT", `no rules are made for ${service.service}`, {
    hint: "a Service needs a cluster IP and must not be left to another proxy; look at its name, namespace and ports",
  });
}

function selectionOf(family: Family, key: string): PacketSelection {
  const { address = "node", protocol, port } = parseFrontendKey(key);
  return { family, destination: address, protocol: protocol as Protocol, destinationPort: port };
}
