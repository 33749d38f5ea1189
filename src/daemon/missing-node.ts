import type { Logger } from "../base/logger.ts";
import { byNearness } from "../base/nearest.ts";
import type { SourceHandlers } from "../kube/source.ts";

/** What {@link watchForNode} needs. */
export interface NodeWatchParts {
  readonly handlers: SourceHandlers;
  /** The name of the Node that nft-proxy runs on. */
  readonly nodeName: string;
  /** The names of the Nodes that there are; empty when they are unknown. */
  readonly nodeNames: () => Promise<readonly string[]>;
  readonly logger: Logger;
}

/** The most names in the warning. */
const MOST_NAMES = 5;

/**
 * Wraps the handler of Nodes: warns when the first list has no Node of our name, with the nearest names that there are, and
 * tells when it arrives. The daemon goes on without it, as a Node may register late.
 */
export function watchForNode({ handlers, nodeName, nodeNames, logger }: NodeWatchParts): SourceHandlers {
  const { nodes } = handlers;
  const seen = new Set<string>();
  let [isAsked, isWarned] = [false, false];
  const warn = async (): Promise<void> => {
    const names = byNearness(nodeName, new Set([...seen, ...(await nodeNames())]));
    if (seen.has(nodeName)) return;
    const nearest = names.length === 0 ? {} : { nearest: names.slice(0, MOST_NAMES) };
    const hint = "its addresses, zone and podCIDRs are unknown; --hostname-override names the Node";
    isWarned = true;
    logger.warn({ node: nodeName, ...nearest, hint }, "there is no Node of this name: going on without it");
  };
  return {
    ...handlers,
    nodes: {
      ...nodes,
      onUpsert: (key, node, previous) => {
        if (isWarned && key === nodeName && !seen.has(nodeName)) logger.info({ node: nodeName }, "the Node is there");
        seen.add(key);
        nodes.onUpsert(key, node, previous);
      },
      onSynced: () => {
        nodes.onSynced();
        if (isAsked || seen.has(nodeName)) return;
        isAsked = true;
        void warn();
      },
    },
  };
}
