import { durationText } from "../../base/duration.ts";
import { counted, listText, percentText, socketText } from "../../base/text.ts";
import type {
  Connection,
  ExplainedEndpoint,
  ExplainedFrontend,
  ExplainedStep,
  Explanation,
  Verdict,
} from "../../inspect/explain/explanation.ts";
import type { PortReport, Report } from "../../inspect/explain/report.ts";
import type { Reason } from "../../inspect/explain/service-reasons.ts";
import { resultText } from "../../inspect/explain/words.ts";
import { parseFrontendKey, portsText } from "../../ruleset/keys.ts";
import { ORIGIN_NAMES } from "../../ruleset/service-view.ts";
import { isEcho } from "../../trace/packet.ts";
import { paragraph, printable, type Style, wrapped } from "../terminal.ts";

/** Maximum numbers of used and of excluded endpoints that are shown; the others are counted. */
const MOST_ENDPOINTS = 10;

type AllReport = Extract<Report, { readonly kind: "all" }>;

/**
 * One connection in full, for people. Only longer words exceed the columns of the style. Ends with a line
 * feed.
 */
export function explanationText(explanation: Explanation, style: Style): string {
  const { connection, frontend, steps, endpoints, notes, differences } = explanation;
  const lines = [
    ...paragraph(connectionText(connection), 0, style).map(style.heading),
    ...paragraph(whereText(explanation), 0, style),
    ...(frontend === undefined ? [] : paragraph(frontendText(frontend), 0, style)),
    ...section("The path through the rules", stepLines(steps, style), style),
    ...section("Endpoints", endpointLines(endpoints, style), style),
    ...section("Also", noteLines(notes, style), style),
    ...(differences === undefined
      ? []
      : section("Kernel against the desired state", differenceLines(differences, style), style)),
    "",
    ...verdictLines(explanation.verdict, 0, style),
  ];
  return `${lines.join("\n")}\n`;
}

/**
 * Several connections, a few lines each, below the endpoints of their Service port and the effects of its
 * annotations. Ends with a line feed.
 */
export function portReportsText(ports: readonly PortReport[], style: Style): string {
  const blocks = ports.map(({ title, explanations }) => {
    const [first] = explanations;
    return [
      style.heading(printable(title)),
      ...endpointLines(first?.endpoints ?? [], style),
      ...noteLines(first?.notes ?? [], style),
      ...explanations.flatMap((one) => briefLines(one, style)),
    ];
  });
  return `${blocks.map((lines) => lines.join("\n")).join("\n\n")}\n`;
}

/** All Services, or those with problems, and the count. Ends with a line feed. */
export function allReportText({ ports, services, problemsOnly }: AllReport, style: Style): string {
  if (services === 0) return "no Services\n";
  const read = counted(services, "Service");
  const frontends = ports.reduce((sum, { explanations }) => sum + explanations.length, 0);
  if (ports.length === 0) return `${read}: ${problemsOnly ? "no problems" : "no frontends"}\n`;
  const found = counted(frontends, "frontend");
  return `${portReportsText(ports, style)}\n${read}: ${found}${problemsOnly ? " with problems" : ""}\n`;
}

function briefLines(explanation: Explanation, style: Style): string[] {
  return [
    "",
    ...paragraph(briefConnection(explanation), 2, style),
    ...verdictLines(shortened(explanation.verdict), 4, style),
    ...(explanation.differences ?? []).flatMap((difference) =>
      wrapped(difference, "    ! ", "      ", style.columns),
    ),
  ];
}

/** Omits the action of a connection that is served: it would be repeated for each frontend. */
function shortened(verdict: Verdict): Verdict {
  const { result, cause, message } = verdict;
  return cause === "served" ? { result, cause, message } : verdict;
}

/** Why nft-proxy does not handle a Service. Ends with a line feed. */
export function notServedText({ message, action }: Reason, style: Style): string {
  const sentence = `Not handled: Service ${message}${action === undefined ? "" : `; ${action}`}.`;
  const text = paragraph(sentence, 0, style).join("\n");
  return `${text.replace("Not handled", style.bad("Not handled"))}\n`;
}

function connectionText({ from, to, port, protocol }: Connection): string {
  const source = `from ${from.address} (${sourceText(from)})`;
  return isEcho(protocol) ? `ping ${source} to ${to}` : `${protocol} ${source} to ${to} port ${port}`;
}

function sourceText({ at, known }: Connection["from"]): string {
  return known === "assumed" ? `${SOURCES[at]}, assumed` : SOURCES[at];
}

const SOURCES: Readonly<Record<Connection["from"]["at"], string>> = {
  pod: "a pod",
  node: "this node",
  outside: "outside",
};

function whereText({ node, rules }: Explanation): string {
  return rules === "live"
    ? `on ${node}, by the rules in the kernel`
    : `on ${node}, simulated from these objects`;
}

function frontendText(frontend: ExplainedFrontend): string {
  const { key, service, portName, origin, affinitySeconds, endpointsOf } = frontend;
  const ports = parseFrontendKey(key);
  const range = ports.lastPort === undefined ? "" : `, range ${portsText(ports)}`;
  const name = `${portName === "" ? "" : `, port ${portName}`}${range}`;
  const affinity = affinitySeconds === 0 ? "" : `, affinity of ${durationText(affinitySeconds)}`;
  const list = endpointsOf === "local" ? ", endpoints of this node only" : "";
  return `the ${ORIGIN_NAMES[origin]} of Service ${service}${name}${list}${affinity}`;
}

function noteLines(notes: Explanation["notes"], style: Style): string[] {
  return notes.flatMap(({ topic, message }) => paragraph(`${topic}: ${message}`, 2, style));
}

function section(title: string, lines: readonly string[], style: Style): string[] {
  return lines.length === 0 ? [] : ["", style.heading(title), ...lines];
}

function stepLines(steps: readonly ExplainedStep[], style: Style): string[] {
  if (steps.length === 0) return ["  no rule of nft-proxy matches"];
  let hook = "";
  return steps.flatMap((step) => {
    const head = step.hook === hook ? [] : [`  ${step.hook}`];
    hook = step.hook;
    const share = step.probability < 1 ? ` (${percentText(step.probability)} of connections)` : "";
    const table = step.table === undefined ? "" : `table ${step.table}, `;
    const asides = [
      ...(step.table === undefined ? [] : [step.rule]),
      ...(step.elements.length === 0 ? [] : [listText(step.elements, 1)]),
    ];
    return [
      ...head,
      ...paragraph(`${table}${step.chain}: ${step.message}${share}`, 4, style),
      ...asides.flatMap((text) => paragraph(text, 6, style)).map(style.aside),
    ];
  });
}

function endpointLines(endpoints: readonly ExplainedEndpoint[], style: Style): string[] {
  const used = endpoints.filter(({ excluded }) => excluded === undefined);
  const excluded = endpoints.filter((endpoint) => endpoint.excluded !== undefined);
  const shown = new Set([...used.slice(0, MOST_ENDPOINTS), ...excluded.slice(0, MOST_ENDPOINTS)]);
  const lines = endpoints
    .filter((endpoint) => shown.has(endpoint))
    .flatMap((endpoint) => endpointLine(endpoint, style));
  const more = [
    ...(used.length > MOST_ENDPOINTS ? [`${used.length - MOST_ENDPOINTS} more used`] : []),
    ...(excluded.length > MOST_ENDPOINTS ? [`${excluded.length - MOST_ENDPOINTS} more excluded`] : []),
  ];
  return more.length === 0 ? lines : [...lines, `        and ${more.join(", ")}`];
}

function endpointLine(endpoint: ExplainedEndpoint, style: Style): string[] {
  const { probability, excluded } = endpoint;
  const mark = excluded === undefined ? percentText(probability).padStart(6) : "     -";
  const why = excluded === undefined ? "" : `: ${excluded.message}`;
  const text = wrapped(`${endpointText(endpoint)}${why}`, `${mark}  `, "          ", style.columns);
  return excluded === undefined ? text : text.map(style.aside);
}

function endpointText({ address, port, node, zone, pod }: ExplainedEndpoint): string {
  const known = [pod, node === "" ? "" : `on ${node}`, zone === "" ? "" : `in ${zone}`].filter(
    (part) => part !== "",
  );
  return [socketText(address, port), ...known].join(" ");
}

function differenceLines(differences: readonly string[], style: Style): string[] {
  if (differences.length === 0) return ["  no difference for this frontend"];
  return differences.flatMap((difference) => paragraph(difference, 2, style));
}

/** The conclusion: outcome, cause and action in one sentence, then the commands of the action. */
function verdictLines(verdict: Verdict, indent: number, style: Style): string[] {
  const { result, message } = verdict;
  const name = resultText(result);
  const word = `${name.charAt(0).toUpperCase()}${name.slice(1)}`;
  // A message may begin with the outcome itself: `dropped by table inet filter`.
  const isNamed = message.startsWith(`${name} `);
  const conclusion = isNamed ? `${word}${message.slice(word.length)}` : `${word}: ${message}`;
  const [first = "", ...rest] = adviceLines(conclusion, verdict, indent, style);
  const mark = result === "served" || result === "not-handled" ? style.good : style.bad;
  return [first.replace(word, mark(word)), ...rest];
}

/**
 * A message with the action to take, and below them the action's commands. These are never wrapped and have
 * lines of their own, so that they can be pasted into a shell.
 */
export function adviceLines(
  message: string,
  { action, commands = [] }: Pick<Verdict, "action" | "commands">,
  indent: number,
  style: Pick<Style, "columns">,
): string[] {
  const sentence = action === undefined ? message : `${message}; ${action}`;
  const end = commands.length === 0 ? "." : ":";
  return [
    ...paragraph(`${sentence}${end}`, indent, style),
    ...commands.map((command) => `${" ".repeat(indent + 4)}${printable(command)}`),
  ];
}

function briefConnection({ connection, frontend }: Explanation): string {
  const { from, to, port, protocol } = connection;
  const origin = frontend === undefined ? "" : `${ORIGIN_NAMES[frontend.origin]} `;
  const ports = frontend === undefined ? String(port) : portsText(parseFrontendKey(frontend.key));
  return `${origin}${to} port ${ports}/${protocol}, from ${from.address} (${sourceText(from)})`;
}
