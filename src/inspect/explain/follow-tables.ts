import { familyOf } from "../../model/ip.ts";
import type { AnyTable } from "../../nft/ast/any-table.ts";
import type { Table } from "../../nft/ast/ruleset.ts";
import { evaluatePrepared, type PreparedTables, prepareTables } from "../../trace/evaluate.ts";
import type { Outcome } from "../../trace/outcome.ts";
import type { Host, Packet } from "../../trace/packet.ts";
import type { ExplainInput, LiveRules } from "./explain-input.ts";
import type { Connection } from "./explanation.ts";
import { packetOf, SOMEWHERE } from "./packet.ts";

/** A connection's outcomes by the tables of all software, and all that they depend on. */
export interface FollowedConnection {
  readonly tables: PreparedTables;
  readonly host: Host;
  readonly packet: Packet;
  readonly outcomes: readonly Outcome[];
}

/**
 * Follows a connection through the kernel's tables of all software, in the order of their hooks and priorities.
 * @param own nft-proxy's table
 * @returns undefined where only nft-proxy has tables, or the kernel is not followed
 */
export function followAllTables(
  connection: Connection,
  own: Table | undefined,
  input: ExplainInput,
): FollowedConnection | undefined {
  const { live } = input;
  if (live === undefined || live.otherTables.tables.length === 0) return undefined;
  const { otherTables, affinityEntries } = live;
  const listed: AnyTable[] = [...otherTables.tables];
  if (own !== undefined) listed.splice(otherTables.older[own.family], 0, own);
  const tables = prepareTables(listed);
  const host = { ...input.host, interfaceTo: routesBeside(connection, live) };
  const packet = arrivingPacket(connection, input);
  return { tables, host, packet, outcomes: evaluatePrepared(tables, host, packet, affinityEntries, true) };
}

/** The routes of the node, without that of a pod which was assumed and has none of its own. */
function routesBeside(
  { from: { address, at, known } }: Connection,
  { interfaceTo }: LiveRules,
): LiveRules["interfaceTo"] {
  const isDefault = interfaceTo(address) === interfaceTo(SOMEWHERE[familyOf(address)]);
  if (at !== "pod" || known === "given" || !isDefault) return interfaceTo;
  return (to) => (to === address ? undefined : interfaceTo(to));
}

/** The packet with the interface by which it arrives, as far as that is known. */
function arrivingPacket(connection: Connection, input: ExplainInput): Packet {
  const { iifname, ...from } = packetOf(connection, input).from;
  const { to, port, protocol } = connection;
  const arrival = arrivalInterface(connection, input) ?? (iifname === "" ? undefined : iifname);
  return { from: arrival === undefined ? from : { ...from, iifname: arrival }, to, port, protocol };
}

/** The interface to which the source is routed. An assumed source outside may come from anywhere. */
function arrivalInterface(connection: Connection, { live }: ExplainInput): string | undefined {
  const { address, at, known } = connection.from;
  const isKnown = at === "pod" || (at === "outside" && known === "given");
  return isKnown && live !== undefined ? routesBeside(connection, live)(address) : undefined;
}
