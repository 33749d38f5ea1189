import type { Family } from "../base/family.ts";
import type { Flow, FlowTable } from "../kernel/conntrack.ts";
import { familyOf } from "../model/ip.ts";
import { joinParts } from "../nft/elements.ts";

/** Endpoints of a family, each as `address . port`. */
export interface EndpointName {
  readonly family: Family;
  readonly target: string;
}

/**
 * Deletes the connections that wait for an answer from one of these endpoints. A client sends its SYN again
 * after 1, 3, 7 s and so on (RFC 6298), and the kernel would translate it to the same endpoint for two
 * minutes. Now it starts a new connection, which goes to another endpoint.
 * @returns the number of connections
 * @throws AppError HOST if conntrack (conntrack-tools) is missing or fails
 */
export async function releaseUnanswered(
  table: FlowTable,
  endpoints: readonly EndpointName[],
): Promise<number> {
  const names = new Set(endpoints.map(({ family, target }) => `${family} ${target}`));
  const waiting = await unansweredBy(table, names);
  if (waiting.length === 0) return 0;
  // Some versions of conntrack cannot: they fail (1.4.6) or do nothing (1.4.7).
  await table.expireFlows(waiting).catch(() => {});
  const ids = new Set(waiting.map(({ id }) => id));
  const left = (await unansweredBy(table, names)).filter(({ id }) => ids.has(id));
  if (left.length > 0) await table.deleteFlowsLike(left);
  return waiting.length;
}

async function unansweredBy(table: FlowTable, names: ReadonlySet<string>): Promise<Flow[]> {
  const found: Flow[] = [];
  for await (const flow of table.unansweredConnections()) {
    const { address, port } = flow.replySource;
    if (names.has(`${familyOf(address)} ${joinParts(address, port)}`)) found.push(flow);
  }
  return found;
}
