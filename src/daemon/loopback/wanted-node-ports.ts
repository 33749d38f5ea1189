import { splitParts } from "../../nft/elements.ts";
import type { NodeContext } from "../../ruleset/node-context.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import { FRONTEND_MAPS } from "../../ruleset/sets.ts";
import type { LoopbackNodePort } from "./loopback-proxy.ts";

/** The TCP NodePorts that have endpoints, of the families whose loopback address serves NodePorts. */
export function wantedNodePorts(state: RulesetState, nodeContext: NodeContext): LoopbackNodePort[] {
  return nodeContext
    .filter(({ loopbackNodePorts }) => loopbackNodePorts)
    .flatMap(({ family }) => {
      const familyState = state.families[family];
      const balanced = familyState?.table.sets.get(FRONTEND_MAPS.nodeport.services)?.elements.keys() ?? [];
      return [...balanced].flatMap((key) => {
        const [protocol = "", port = ""] = splitParts(key);
        const owner = protocol === "tcp" ? familyState?.ownerOf(key) : undefined;
        return owner === undefined ? [] : [{ family, port: Number(port), service: owner.service.name }];
      });
    });
}
