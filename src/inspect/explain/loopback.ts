import { familyOf } from "../../model/ip.ts";
import { LOOPBACK_NODEPORT_ADDRESSES } from "../../ruleset/loopback.ts";
import type { ExplainInput } from "./explain-input.ts";
import type { Connection, Explanation } from "./explanation.ts";
import { nodePortAt } from "./match.ts";

/** The loopback addresses on which the daemon listens for NodePorts. */
const LISTENING = { ip: "127.0.0.1", ip6: "::1" } as const;

/**
 * The connection that the daemon makes for one to a NodePort on loopback; undefined where it listens for none.
 */
export function relayedConnection(connection: Connection, input: ExplainInput): Connection | undefined {
  const { to, port, protocol } = connection;
  const family = familyOf(to);
  const context = input.nodeContext.find((one) => one.family === family);
  if (!context?.loopbackNodePorts || to !== LISTENING[family] || protocol !== "tcp") return undefined;
  if (nodePortAt(connection, input) === undefined) return undefined;
  const from = { address: context.nodeAddress || to, at: "node", known: "assumed" } as const;
  return { from, to: LOOPBACK_NODEPORT_ADDRESSES[family], port, protocol };
}

/** Tells the explanation of a relayed connection as that of the client's. */
export function loopbackExplanation(connection: Connection, relayed: Explanation): Explanation {
  const { to, port } = relayed.connection;
  const message =
    relayed.verdict.result === "served"
      ? `nft-proxy run listens on this address (--nodeport-addresses localhost) and connects to ${to} port ${port}, which the rules lead to an endpoint`
      : `nft-proxy run listens on this address (--nodeport-addresses localhost) only while the NodePort has endpoints`;
  return { ...relayed, connection, notes: [{ topic: "loopback", message }, ...relayed.notes] };
}
