import type { FamilyState } from "../../ruleset/family-state.ts";
import { parseFrontendKey } from "../../ruleset/keys.ts";
import type { NodeContext } from "../../ruleset/node-context.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import { LISTS, NO_ENDPOINTS } from "../../ruleset/sets.ts";
import type { LoopbackNodePort } from "./loopback-proxy.ts";

/** The TCP NodePorts that have endpoints, of the families whose loopback address serves NodePorts. */
export function wantedNodePorts(state: RulesetState, nodeContext: NodeContext): LoopbackNodePort[] {
  return nodeContext
    .filter(({ loopbackNodePorts }) => loopbackNodePorts)
    .flatMap(({ family }) => {
      const familyState = state.families[family];
      const { elements } = familyState?.table.sets.get(LISTS) ?? {};
      return [...(elements?.keys() ?? [])].flatMap((key) => {
        const { address, protocol, port } = parseFrontendKey(key);
        const owner = address === undefined && protocol === "tcp" ? familyState?.ownerOf(key) : undefined;
        return owner === undefined || isRefused(familyState, key)
          ? []
          : [{ family, port, service: owner.service.name }];
      });
    });
}

/** By a policy of Local, and with endpoints on other nodes only. */
function isRefused(state: FamilyState | undefined, key: string): boolean {
  return state?.table.sets.get(NO_ENDPOINTS)?.elements.has(key) ?? false;
}
