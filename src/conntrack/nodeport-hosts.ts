import type { ByFamily, Family } from "../base/family.ts";
import { isLoopback } from "../model/ip.ts";
import type { NodePortAddresses } from "../model/node.ts";

/** Addresses of this node, of both families. */
export interface NodePortHosts {
  /** They serve NodePorts. */
  readonly serving: ReadonlySet<string>;
  /** They served NodePorts before. */
  readonly former: ReadonlySet<string>;
}

/**
 * The addresses of this node that serve NodePorts, as the rules choose them. On all others, a port with the number of a
 * NodePort is the host's own, and so are flows to it.
 * @param selected what `--nodeport-addresses` selects, for each programmed family
 * @param ofHost reads all addresses of the host; asked only where all of them are selected
 */
export async function nodePortHosts(
  selected: readonly { readonly family: Family; readonly nodePorts: NodePortAddresses }[],
  ofHost: () => Promise<ByFamily<readonly string[]>>,
): Promise<ReadonlySet<string>> {
  const local = selected.some(({ nodePorts }) => nodePorts.kind === "all") ? await ofHost() : { ip: [], ip6: [] };
  return new Set(
    selected.flatMap(({ family, nodePorts }) =>
      nodePorts.kind === "all" ? local[family].filter((address) => !isLoopback(address)) : nodePorts.addresses,
    ),
  );
}
