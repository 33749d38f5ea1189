import { durationText } from "../../base/duration.ts";
import { counted, firstNames, moreLines, percentText, socketText } from "../../base/text.ts";
import type { Behaviour } from "../../inspect/outcomes/behaviour.ts";
import type { ComparedClient } from "../../inspect/outcomes/clients.ts";
import {
  isOfKind,
  type OutcomeChange,
  type OutcomeDifference,
  type OutcomeReport,
} from "../../inspect/outcomes/compare-outcomes.ts";
import { jsonText } from "../command-result.ts";
import { githubCommand } from "../notices.ts";

/** Maximum numbers of differences and endpoints that are listed; the others are counted. */
const MOST_DIFFERENCES = 100;
const MOST_ENDPOINTS = 8;

/** The text output: each frontend whose outcome differs, with the affected clients. */
export function outcomeText(report: OutcomeReport): string {
  const { differences, sides } = report;
  const width = Math.max(...sides.map(({ length }) => length));
  const shown = differences.slice(0, MOST_DIFFERENCES);
  const lines = shown.flatMap((difference) => [
    `${titleText(difference)}, from ${clientsText(difference.clients)}`,
    `  - ${`${sides[0]}:`.padEnd(width + 1)} ${behaviourText(difference.before)}`,
    `  + ${`${sides[1]}:`.padEnd(width + 1)} ${behaviourText(difference.after)}`,
  ]);
  return `${[...lines, ...moreLines(differences.length - shown.length), summaryText(report)].join("\n")}\n`;
}

function summaryText({ differences, frontends, connections }: OutcomeReport): string {
  const compared = `${counted(connections, "connection")} compared`;
  if (differences.length === 0) return `no difference: ${counted(frontends, "frontend")}, ${compared}`;
  const differing = new Set(differences.map(({ frontend }) => `${frontend.address} ${frontend.key}`)).size;
  return `outcomes differ at ${differing} of ${counted(frontends, "frontend")}; ${compared}`;
}

/** `shop/cart:http at 10.96.1.2:80/tcp`. */
function titleText({ service, frontend }: OutcomeDifference): string {
  const { kind, address, port, protocol } = frontend;
  const target = `${socketText(address, port)}/${protocol}`;
  if (kind === "unserved") return `cluster IP ${address}, at a port that no Service serves`;
  if (kind === "unallocated") return `${address}, which no Service has`;
  const name = service ?? "no Service";
  return kind === "node-port" ? `${name} at NodePort ${target}` : `${name} at ${target}`;
}

const CLIENTS: Readonly<Record<ComparedClient["kind"], string>> = {
  pod: "pods",
  node: "this node",
  outside: "outside",
  range: "",
  endpoint: "the endpoint itself",
};

function clientsText(clients: readonly ComparedClient[]): string {
  return clients
    .map(({ kind, from }) => (kind === "range" ? from.address : `${CLIENTS[kind]} (${from.address})`))
    .join(", ");
}

/** `served by 10.244.1.11:8080 (50 %), source kept`. */
function behaviourText(behaviour: Behaviour): string {
  const { result, destinations, refused, dropped, affinitySeconds, returning } = behaviour;
  if (result === "refused" || result === "dropped") return result;
  if (result === "not-understood") return "not understood";
  if (result === "not-handled") return "not handled: delivered to the address itself";
  const endpoints = destinations.map(({ address, port, probability, source }) => {
    const name =
      source === "masqueraded" ? `${socketText(address, port)} masqueraded` : socketText(address, port);
    return `${name} (${percentText(probability)})`;
  });
  const parts = [
    ...(endpoints.length > 0 ? [`served by ${firstNames(endpoints, MOST_ENDPOINTS)}`] : []),
    ...(refused > 0 ? [`refused (${percentText(refused)})`] : []),
    ...(dropped > 0 ? [`dropped (${percentText(dropped)})`] : []),
    ...(affinitySeconds > 0
      ? [
          `affinity of ${durationText(Math.round(affinitySeconds))}, ${percentText(returning)} of clients return`,
        ]
      : []),
  ];
  return parts.join("; ");
}

/** The JSON output: schemas/outcome-report.schema.json. */
export function outcomeJson({ differences, sides, frontends, connections }: OutcomeReport): string {
  const list = differences.map(({ service, frontend, clients, changes, before, after, place }) => ({
    service,
    frontend: {
      kind: frontend.kind,
      address: frontend.address,
      port: frontend.port,
      protocol: frontend.protocol,
    },
    clients: clients.map(({ kind, from }) => ({ kind, address: from.address })),
    changes,
    before,
    after,
    ...place,
  }));
  const [before, after] = sides;
  return jsonText({ same: list.length === 0, before, after, frontends, connections, differences: list });
}

/** The output for GitHub: an error for each difference that fails, a warning for each other one. */
export function outcomeGithub(report: OutcomeReport, failOn: readonly OutcomeChange[]): string {
  const commands = report.differences.map((difference) => {
    const { place, before, after, clients } = difference;
    const text = `from ${clientsText(clients)}: was ${behaviourText(before)}; becomes ${behaviourText(after)}`;
    return githubCommand(isOfKind(difference, failOn) ? "error" : "warning", text, {
      file: place?.file === "-" ? undefined : place?.file,
      line: place?.line,
      title: titleText(difference),
    });
  });
  return `${[...commands, summaryText(report)].join("\n")}\n`;
}
