import { FEATURES } from "../../features/registry.ts";
import type { ExplainedPacket } from "../../features/seam/feature.ts";
import { familyOf } from "../../model/ip.ts";
import type { Service } from "../../model/service.ts";
import { servicePortsOf } from "../../model/service-port.ts";
import { contextOf } from "../../ruleset/node-context.ts";
import type { FrontendOutcome } from "../../ruleset/service-view.ts";
import { isLocal } from "../../trace/packet.ts";
import type { ExplainInput } from "./explain-input.ts";
import type { Cause, Connection } from "./explanation.ts";
import { type Match, servicesAt, viewsOf } from "./match.ts";
import { noEndpointReason, type Reason, sourceRangeReason } from "./service-reasons.ts";

/**
 * Returns the reason that a feature gives for the outcome of a packet that no service port serves; undefined
 * if it concerns none.
 */
export function featureReason(
  connection: Connection & { readonly isServed: boolean },
  input: ExplainInput,
): Reason | undefined {
  const { from, to, port, protocol, isServed } = connection;
  const services = servicesAt(to, input);
  const packet: Omit<ExplainedPacket, "without"> = {
    ...{ from: from.address, to, port, protocol, isServed, services },
    isLocal: isLocal(input.host, to),
    context: contextOf(input.nodeContext, familyOf(to)),
    outcomesOf: (service) => matchesAt(to, service, input).map(({ frontend }) => frontend.outcome),
    refusal: () => refusalAt(connection, services, input),
  };
  for (const { name, words } of FEATURES) {
    const without = (service: Service) => {
      const budget = input.state.budgets.without(name);
      return servicePortsOf(service).flatMap(({ key }) => budget.get(key) ?? [])[0];
    };
    const reason = words?.reason?.({ ...packet, without });
    if (reason !== undefined) return { ...reason, cause: (reason.cause ?? name) as Cause };
  }
  return undefined;
}

/** The frontends that a Service has at an address. */
function matchesAt(to: string, { name }: Service, input: ExplainInput): readonly Match[] {
  return [...viewsOf(name, input).values()]
    .filter(({ view, frontend }) => frontend.address === to && frontend.owner?.key === view.port.key)
    .map(({ view, frontend }) => ({ port: view.port, view, frontend, losers: [] }));
}

/** The outcomes of frontends, the most favourable first. */
const OUTCOMES: readonly FrontendOutcome[] = ["served", "no-local-endpoints", "no-endpoints"];

/** Why an address does not serve a client: the reason of the frontend that comes closest to serving it. */
function refusalAt(
  connection: Connection,
  services: readonly Service[],
  input: ExplainInput,
): Reason | undefined {
  const matches = services.flatMap((service) => matchesAt(connection.to, service, input));
  const [match] = OUTCOMES.flatMap((one) => matches.find(({ frontend }) => frontend.outcome === one) ?? []);
  if (match === undefined) return undefined;
  const isServed = match.frontend.outcome === "served";
  return isServed ? sourceRangeReason({ connection, match }) : noEndpointReason(match, input);
}
