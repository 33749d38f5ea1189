import type { Clock } from "../../base/clock.ts";
import { FailureLog } from "../../base/failure-log.ts";
import type { Logger } from "../../base/logger.ts";
import { EVERYWHERE, type Flow, type FlowTable } from "../../kernel/conntrack.ts";
import { loggedReading } from "../../kernel/logged-reading.ts";
import { joinParts } from "../../nft/elements.ts";

/** An endpoint that does not answer, as `address . port`. */
interface Silent {
  readonly target: string;
}

/**
 * Returns a function that calls {@link releaseUnanswered} and never rejects. Endpoints that are ejected while
 * it lists the conntrack table share the next listing.
 */
export function unansweredReleaser(table: FlowTable, clock: Clock, logger: Logger) {
  const failures = new FailureLog(
    { logger, clock },
    "release connections that wait for ejected endpoints",
    ": their clients wait up to two minutes",
  );
  const pending: Silent[] = [];
  let isReleasing = false;
  const release = async () => {
    const connections = await releaseUnanswered(table, pending.splice(0));
    if (connections > 0) logger.info({ connections }, "released connections that wait for ejected endpoints");
  };
  return async (endpoints: readonly Silent[]): Promise<void> => {
    pending.push(...endpoints);
    if (isReleasing) return;
    isReleasing = true;
    while (pending.length > 0) await loggedReading(failures, release);
    isReleasing = false;
  };
}

/**
 * Deletes the connections that wait for an answer from one of these endpoints. A client sends its SYN again
 * after 1, 3, 7 s and so on (RFC 6298), and the kernel would translate it to the same endpoint for two
 * minutes. Without its entry the SYN starts a new connection, which goes to another endpoint.
 * @returns the number of connections
 * @throws AppError HOST if the conntrack table cannot be read or changed
 */
export async function releaseUnanswered(table: FlowTable, endpoints: readonly Silent[]): Promise<number> {
  const targets = new Set(endpoints.map(({ target }) => target));
  const waiting: Flow[] = [];
  for await (const flow of table.list("tcp", EVERYWHERE)) {
    const { address, port } = flow.replySource;
    if (flow.state === "syn_sent" && targets.has(joinParts(address, port))) waiting.push(flow);
  }
  if (waiting.length > 0) await table.expireFlows(waiting);
  return waiting.length;
}
