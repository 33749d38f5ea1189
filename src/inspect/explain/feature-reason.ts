import { FEATURES } from "../../features/registry.ts";
import type { ExplainedPacket } from "../../features/seam/feature.ts";
import { familyOf } from "../../model/ip.ts";
import { contextOf } from "../../ruleset/node-context.ts";
import { viewService } from "../../ruleset/service-view.ts";
import type { ExplainInput } from "./explain-input.ts";
import type { Cause, Connection } from "./explanation.ts";
import { servicesAt } from "./match.ts";
import type { Reason } from "./service-reasons.ts";

/**
 * Returns the reason that a feature gives for the outcome of a packet that no Service port is for; undefined
 * if it concerns none.
 */
export function featureReason(
  { from, to, protocol }: Connection,
  isServed: boolean,
  input: ExplainInput,
): Reason | undefined {
  const { cache, nodeContext, state } = input;
  const packet: ExplainedPacket = {
    ...{ from: from.address, to, protocol, isServed },
    context: contextOf(nodeContext, familyOf(to)),
    services: servicesAt(to, input),
    outcomesOf: ({ name }) =>
      viewService(cache, name, nodeContext, state).flatMap(({ port, frontends }) =>
        frontends.flatMap(({ address, owner, outcome }) =>
          address === to && owner?.key === port.key ? [outcome] : [],
        ),
      ),
  };
  for (const { words } of FEATURES) {
    const reason = words?.reason?.(packet);
    if (reason !== undefined) return { ...reason, cause: reason.cause as Cause };
  }
  return undefined;
}
