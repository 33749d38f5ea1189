import { FAMILY_NAMES, type Family } from "../../base/family.ts";
import { listText } from "../../base/text.ts";
import type { NodeContext } from "../../ruleset/node-context.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import type { DaemonPart, FeatureCard, FeatureHost } from "../seam/daemon-part.ts";
import { PING_IPS } from "./answers.ts";
import { answersPing } from "./rules.ts";

/** Logs when echo requests to Services get no answer, and shows how many addresses answer. */
export function createDaemonPart(host: FeatureHost): DaemonPart {
  return { synced: silenceLog(host), card: () => cardOf(host.nodeContext(), host.state()) };
}

/** Logs each time that the node begins to lack an address of a family in which Services would answer. */
function silenceLog({ logger, state }: Pick<FeatureHost, "logger" | "state">) {
  let known = "";
  return ({ nodeContext }: { readonly nodeContext: NodeContext }): void => {
    const silent = listText(silentFamilies(nodeContext, state()).map((one) => FAMILY_NAMES[one]));
    if (silent !== known && silent !== "") {
      const hint = "add an InternalIP of the family to the Node, or set --bind-address";
      logger.warn({ families: silent, hint }, "--answer-ping: no address of this node to answer pings with");
    }
    known = silent;
  };
}

function cardOf(nodeContext: NodeContext, state: RulesetState): FeatureCard | undefined {
  if (!nodeContext.some(answersPing)) return undefined;
  const silent = silentFamilies(nodeContext, state);
  const answering = nodeContext.filter(({ family }) => !silent.includes(family));
  const count = answering.reduce((sum, { family }) => sum + addressCount(family, state), 0);
  return {
    title: "Answered pings",
    tone: silent.length === 0 ? "good" : "bad",
    value: String(count),
    lines: [
      "addresses of Services answer",
      ...silent.map((family) => `this node has no ${FAMILY_NAMES[family]} address to answer with`),
    ],
    list: [],
  };
}

/** The families in which addresses of Services would answer, but the node has no address to answer with. */
function silentFamilies(nodeContext: NodeContext, state: RulesetState): readonly Family[] {
  return nodeContext.flatMap(({ family, nodeAddress }) =>
    nodeAddress === "" && addressCount(family, state) > 0 ? [family] : [],
  );
}

/** Number of addresses that answer, or would. */
function addressCount(family: Family, { ruleset }: RulesetState): number {
  return ruleset[family]?.sets.get(PING_IPS)?.elements.size ?? 0;
}
