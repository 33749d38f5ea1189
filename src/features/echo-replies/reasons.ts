import { FAMILY_NAMES } from "../../base/family.ts";
import { listTextOf } from "../../base/text.ts";
import { familyOf } from "../../model/ip.ts";
import { ECHO_PROTOCOLS } from "../../nft/ast/expression.ts";
import type { ExplainedPacket, FeatureReason } from "../seam/feature.ts";
import { answersPing } from "./rules.ts";

/** Returns the reason why this node answers an echo request to an address of Services, or does not. */
export function reasonOf(packet: ExplainedPacket): FeatureReason | undefined {
  if (packet.protocol !== ECHO_PROTOCOLS[familyOf(packet.to)]) return undefined;
  if (packet.isServed) return answered(packet);
  return packet.services.length === 0 ? undefined : (optionReason(packet) ?? frontendReason(packet));
}

function answered({ to, services, outcomesOf }: ExplainedPacket): FeatureReason {
  const used = services.filter((service) =>
    outcomesOf(service).some((outcome) => outcome !== "no-endpoints"),
  );
  const has = used.length === 1 ? "has" : "have";
  const because = used.length === 0 ? "" : `, because ${servicesText(used)} ${has} endpoints`;
  return {
    cause: "served",
    message: `this node answers with the address ${to}${because}`,
    action: "no endpoint is contacted: connect to a port to see whether one works",
  };
}

function optionReason({ to, services, context }: ExplainedPacket): FeatureReason | undefined {
  const isOn = context !== undefined && answersPing(context);
  if (isOn && context.nodeAddress !== "") return undefined;
  const family = FAMILY_NAMES[familyOf(to)];
  const why = isOn
    ? `this node has no ${family} address of its own to answer with`
    : "this node does not answer pings to Services (--answer-ping is off)";
  return {
    cause: "no-pings",
    message: `${to} belongs to ${servicesText(services)}, but ${why}`,
    action: isOn
      ? `add an InternalIP of ${family} to the Node, or set --bind-address`
      : "connect to one of its ports to see whether it works",
  };
}

/** The reason why no frontend at the address serves the client. */
function frontendReason({ to, refusal }: ExplainedPacket): FeatureReason | undefined {
  const reason = refusal();
  return (
    reason && {
      ...reason,
      message: `${to} answers only clients that one of its ports serves, and ${reason.message}`,
    }
  );
}

function servicesText(services: ExplainedPacket["services"]): string {
  return `Service${services.length === 1 ? "" : "s"} ${listTextOf(services, ({ name }) => name)}`;
}
