import { setTimeout as sleep } from "node:timers/promises";
import { ageText } from "../../base/duration.ts";
import { counted, listText } from "../../base/text.ts";
import { HEALTHZ_PORT, METRICS_PORT } from "../../config/composed-options.ts";
import { type FleetRequest, gatherFleet, untilHealthy } from "../../inspect/fleet/gather-fleet.ts";
import {
  type FleetMetrics,
  type FleetNode,
  fleetEjections,
  isFine,
} from "../../inspect/fleet/node-status.ts";
import { clusterClient } from "../../inspect/load/load-objects.ts";
import type { LoadRequest } from "../../inspect/load/load-request.ts";
import { namespaceArgument, outputFormat } from "../argument-values.ts";
import { type Argv, isSet, type Reporter, textArgument } from "../command.ts";
import { type CommandResult, EXIT, jsonText } from "../command-result.ts";
import { commandOptions, loadRequest } from "../options.ts";
import { printable, tableLines } from "../terminal.ts";

const POLL_MS = 2000;
const WAIT_MS = 10 * 60_000;

/**
 * `fleet`: prints a line for each node of the cluster, worst first. `--wait` waits until all nodes that the
 * DaemonSet selects are healthy, for at most 10 minutes. Exit code 0: they are healthy; 1: some are not, or
 * there are none.
 */
export async function run(argv: Argv, reporter: Reporter): Promise<CommandResult> {
  const format = outputFormat(argv, ["text", "json"]);
  const { request } = await fleetRequest(argv, reporter);
  const gather = () => gatherFleet(request);
  const pause = (nodes: readonly FleetNode[]) => {
    reporter.step(waitingText(nodes));
    return sleep(POLL_MS);
  };
  try {
    reporter.step("querying the nodes");
    const nodes = isSet(argv, "wait") ? await untilHealthy(gather, WAIT_MS, pause) : await gather();
    const output =
      format === "json"
        ? jsonText({ nodes, ejections: fleetEjections(nodes) })
        : `${fleetText(nodes)}asked ${request.server}\n`;
    const areHealthy = nodes.every(isFine) && nodes.some(({ state }) => state === "healthy");
    return { exitCode: areHealthy ? EXIT.ok : EXIT.found, output };
  } finally {
    request.client.close();
  }
}

/** The pods of nft-proxy and their cluster, by the flags of a command. Close the client. */
export async function fleetRequest(
  argv: Argv,
  reporter: Reporter,
): Promise<{ readonly request: FleetRequest; readonly load: LoadRequest }> {
  const namespace = namespaceArgument(argv) ?? "kube-system";
  const options = commandOptions(argv, reporter);
  const load = loadRequest(argv, options);
  const request = {
    ...(await clusterClient(load)),
    namespace,
    selector: textArgument(argv, "selector") ?? "app.kubernetes.io/name=nft-proxy",
    healthPort: options.healthzBindAddress?.port ?? HEALTHZ_PORT,
    metricsPort: options.metricsBindAddress?.port ?? METRICS_PORT,
  };
  return { request, load };
}

function waitingText(nodes: readonly FleetNode[]): string {
  const sick = nodes.filter((node) => !isFine(node));
  return `waiting for ${counted(sick.length, "node")} of ${nodes.length}, such as ${sick[0]?.node} (${sick[0]?.state})`;
}

/** The columns of the text output. */
const COLUMNS: readonly (readonly [title: string, cell: (node: FleetNode) => string])[] = [
  ["NODE", ({ node }) => printable(node)],
  ["STATE", ({ state }) => state],
  ["VERSION", ({ metrics }) => metrics?.version ?? "-"],
  ["VERIFIED", ({ verifiedAgo }) => (verifiedAgo === undefined ? "-" : `${ageText(verifiedAgo)} ago`)],
  ["OUT-OF-SYNC", ({ outOfSyncFor }) => outOfSyncText(outOfSyncFor)],
  ["DRIFT", ({ metrics }) => numberText(metrics?.driftRepairs)],
  ["QUARANTINED", ({ quarantined }) => numberText(quarantined)],
  ["REFUSED", ({ metrics }) => numberText(metrics?.refused)],
  ["EJECTED", ({ metrics }) => numberText(metrics?.ejected.length)],
  ["LAG-P99", ({ metrics }) => lagText(metrics)],
  ["REASON", ({ reason }) => printable(reason ?? "")],
];

/**
 * The text output: a line for each node, with `-` for unknown values, one for each ejected endpoint, and the
 * total. Ends with a line feed.
 */
export function fleetText(nodes: readonly FleetNode[]): string {
  const rows = nodes.map((node) => COLUMNS.map(([, cell]) => cell(node)));
  const lines = tableLines([COLUMNS.map(([title]) => title), ...rows]);
  return `${[...lines, ...ejectionLines(nodes), sumText(nodes)].join("\n")}\n`;
}

/** Ejected endpoints with a line of their own; the JSON output has all of them. */
const MOST_LINES = 20;

function ejectionLines(nodes: readonly FleetNode[]): string[] {
  const ejections = fleetEjections(nodes);
  const lines = ejections.slice(0, MOST_LINES).map(({ endpoint, service, nodes: by, byMost }) => {
    const most = byMost ? ", most nodes: it does not answer, even if its readiness probe succeeds" : "";
    return printable(`${endpoint} of ${service} is ejected by ${listText(by)}${most}`);
  });
  const rest = ejections.length - lines.length;
  return rest > 0 ? [...lines, `and ${counted(rest, "other ejected endpoint")}`] : lines;
}

/** A node with several pods has several lines, and is healthy if all of them are. */
function sumText(nodes: readonly FleetNode[]): string {
  const count = (of: readonly FleetNode[]) => new Set(of.map(({ node }) => node)).size;
  const excluded = count(nodes.filter(({ state }) => state === "not-selected"));
  const healthy = count(nodes) - count(nodes.filter((node) => !isFine(node))) - excluded;
  const more = excluded === 0 ? "" : `, ${excluded} not selected`;
  return `${counted(count(nodes), "node")}, ${healthy} healthy${more}`;
}

function outOfSyncText(seconds: number | undefined): string {
  if (seconds === undefined) return "-";
  return seconds === 0 ? "no" : ageText(seconds);
}

function numberText(value: number | undefined): string {
  return value === undefined ? "-" : String(value);
}

function lagText({ lagP99, lagP99Above }: Partial<FleetMetrics> = {}): string {
  if (lagP99 !== undefined) return `${lagP99} s`;
  return lagP99Above === undefined ? "-" : `>${lagP99Above} s`;
}
