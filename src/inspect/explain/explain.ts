import { familyOf } from "../../model/ip.ts";
import type { Table } from "../../nft/ast/ruleset.ts";
import { joinParts } from "../../nft/elements.ts";
import { LOOPBACK_NODEPORT_ADDRESSES } from "../../ruleset/loopback.ts";
import { affinitySecondsOf, contextOf } from "../../ruleset/node-context.ts";
import { evaluate } from "../../trace/evaluate.ts";
import { summarize } from "../../trace/outcome.ts";
import { differsFromDesired, liveDifferences } from "./differences.ts";
import { explainEndpoints, listOf } from "./endpoints.ts";
import type { ExplainInput } from "./explain-input.ts";
import type { Connection, ExplainedFrontend, Explanation, Verdict } from "./explanation.ts";
import { type Match, matchOf, nodePortAt } from "./match.ts";
import { explainNotes, servicePortNotes } from "./notes.ts";
import { followAllTables, otherTablesVerdict } from "./other-tables.ts";
import { packetOf } from "./packet.ts";
import { explainSteps } from "./steps.ts";
import { type Evidence, verdictOf } from "./verdict.ts";
import { destinationText, endpointListText, resultText } from "./words.ts";

/**
 * The detail of an explanation. A brief one has no steps, and only the notes about the Service port. It takes
 * half of the time.
 */
export type Detail = "brief" | "whole";

/**
 * Follows one connection through the rules and derives the cause of its outcome from the objects.
 * @throws AppError NFT_OUTPUT for rules of other software in nft-proxy's tables
 */
export function explain(connection: Connection, input: ExplainInput, detail: Detail = "whole"): Explanation {
  const relayed = relayedConnection(connection, input);
  if (relayed === undefined) return explainDirect(connection, input, detail);
  return loopbackExplanation(connection, explainDirect(relayed, input, detail));
}

function explainDirect(connection: Connection, input: ExplainInput, detail: Detail): Explanation {
  const { state, live, cache } = input;
  const match = matchOf(connection, input);
  const desired = state.ruleset[familyOf(connection.to)];
  const table = live === undefined ? desired : live.ruleset[familyOf(connection.to)];
  const evidence = evidenceOf(connection, match, table, input);
  const { outcomes, list } = evidence;
  const followed = followAllTables(connection, table, input);
  const everywhere = followed?.outcomes;
  const summary = everywhere && summarize(everywhere);
  const verdict =
    (followed && otherTablesVerdict(connection, followed)) ??
    (live === undefined ? verdictOf(evidence) : liveVerdict(evidence, desired, table));
  const listName = (id: number) => endpointListText(id, state.families[familyOf(connection.to)]);
  return {
    connection,
    node: cache.node.name,
    rules: live === undefined ? "desired" : "live",
    ...(match === undefined ? {} : { frontend: explainFrontend(match, list, input) }),
    steps: detail === "brief" ? [] : explainSteps(everywhere ?? outcomes, table, listName),
    // With their shares after other software's tables, if all of these rules are understood.
    endpoints: summary?.notUnderstood === 0 ? explainEndpoints(evidence, summary) : evidence.endpoints,
    notes: detail === "brief" ? servicePortNotes(evidence) : explainNotes(evidence, everywhere ?? outcomes),
    ...(live !== undefined && input.objectsKnown ? { differences: liveDifferences(connection, input) } : {}),
    verdict,
  };
}

function evidenceOf(
  connection: Connection,
  match: Match | undefined,
  table: Table | undefined,
  input: ExplainInput,
): Evidence {
  const tables = table === undefined ? [] : [table];
  const packet = packetOf(connection, input);
  const outcomes = evaluate(tables, input.host, packet, input.live?.affinityEntries);
  const summary = summarize(outcomes);
  const known = { input, connection, match, list: listOf(match, outcomes), outcomes, summary };
  return { ...known, endpoints: explainEndpoints(known, summary) };
}

function explainFrontend(
  { port, frontend, losers }: Match,
  endpointsOf: Evidence["list"],
  { nodeContext }: ExplainInput,
): ExplainedFrontend {
  const { service, spec, family } = port;
  const context = contextOf(nodeContext, family);
  return {
    key: frontend.key,
    origin: frontend.origin,
    service: service.name,
    portName: spec.name,
    endpointsOf,
    affinitySeconds: context === undefined ? service.affinitySeconds : affinitySecondsOf(service, context),
    ...(frontend.guarded ? { sourceRanges: service.loadBalancerSourceRanges[family] } : {}),
    losers: losers.map((loser) => loser.service.name),
  };
}

/** If the kernel differs from the desired state, this is reported as the cause, before any other. */
function liveVerdict(evidence: Evidence, desired: Table | undefined, table: Table | undefined): Verdict {
  const { connection, match, input } = evidence;
  const found = verdictOf(evidence);
  if (table === undefined)
    return notProgrammed(found, "the kernel has no table of nft-proxy, so nothing is translated");
  if (!input.objectsKnown || !differsFromDesired(table, desired, input)) return found;
  const wanted = evidenceOf(connection, match, desired, input);
  const desiredVerdict = verdictOf(wanted);
  if (desiredVerdict.result === found.result && sameDestinations(evidence, wanted)) return found;
  const by = `desired: ${resultText(desiredVerdict.result)}, ${desiredVerdict.message}`;
  return notProgrammed(
    found,
    `the kernel differs from the desired state of ${destinationText(connection)} (${by})`,
  );
}

function notProgrammed({ result }: Verdict, message: string): Verdict {
  return {
    result,
    cause: "not-programmed",
    message,
    action: "check whether nft-proxy run works on this node, and read its log",
    commands: ["nft-proxy doctor", "nft-proxy diff"],
  };
}

function sameDestinations(a: Evidence, b: Evidence): boolean {
  const destinations = ({ summary }: Evidence) =>
    summary.destinations.map(({ address, port, source }) => `${joinParts(address, port)} ${source}`);
  return destinations(a).join() === destinations(b).join();
}

/** The loopback addresses on which the daemon listens for NodePorts. */
const LISTENING = { ip: "127.0.0.1", ip6: "::1" } as const;

/**
 * The connection that the daemon makes on behalf of a client of a NodePort on loopback; undefined if it does
 * not listen there.
 */
function relayedConnection(connection: Connection, input: ExplainInput): Connection | undefined {
  const { to, port, protocol } = connection;
  const family = familyOf(to);
  const context = contextOf(input.nodeContext, family);
  if (!context?.loopbackNodePorts || to !== LISTENING[family] || protocol !== "tcp") return undefined;
  if (nodePortAt(connection, input) === undefined) return undefined;
  const from = { address: context.nodeAddress || to, at: "node", known: "assumed" } as const;
  return { from, to: LOOPBACK_NODEPORT_ADDRESSES[family], port, protocol };
}

/** Presents the explanation of a relayed connection as one of the client's connection. */
function loopbackExplanation(connection: Connection, relayed: Explanation): Explanation {
  const { to, port } = relayed.connection;
  const message =
    relayed.verdict.result === "served"
      ? `nft-proxy run listens on this address (--nodeport-addresses localhost) and connects to ${to} port ${port}, which the rules lead to an endpoint`
      : `nft-proxy run listens on this address (--nodeport-addresses localhost) only while the NodePort has endpoints`;
  return { ...relayed, connection, notes: [{ topic: "loopback", message }, ...relayed.notes] };
}
