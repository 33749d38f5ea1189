import { byNearness } from "../../base/nearest.ts";

/** A node that is not among the objects that were loaded for it. */
export interface MissingNode {
  readonly name: string;
  /** The nodes that are among the objects, those of the nearest names first; empty when there are none. */
  readonly candidates: readonly string[];
}

/** Whether the node that rules are rendered for is missing among the objects; undefined when it is there. */
export function missingNode(name: string, nodeNames: readonly string[]): MissingNode | undefined {
  return nodeNames.includes(name) ? undefined : { name, candidates: byNearness(name, new Set(nodeNames)) };
}
