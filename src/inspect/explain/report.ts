import { FAMILY_NAMES } from "../../base/family.ts";
import { namespaceOf, type ServiceName } from "../../model/ids.ts";
import { type Detail, explain } from "./explain.ts";
import type { ExplainInput } from "./explain-input.ts";
import type { Explanation, Verdict } from "./explanation.ts";
import { ignoredReason } from "./outside-reasons.ts";
import { connectionOf } from "./packet.ts";
import { allConnections, type ExplainQuery, type PortConnections, serviceConnections } from "./query.ts";
import type { Reason } from "./service-reasons.ts";
import { portSpecText } from "./words.ts";

/** The connections of one Service port in one family. */
export type PortReport = Readonly<ReturnType<typeof portReport>>;

/** The answer to a query. */
export type Report =
  | { readonly kind: "connection"; readonly explanation: Explanation }
  | { readonly kind: "service"; readonly ports: readonly PortReport[] }
  /** The ports of all selected Services; with `problemsOnly`, only ports with problems. */
  | {
      readonly kind: "all";
      readonly ports: readonly PortReport[];
      readonly services: number;
      readonly problemsOnly: boolean;
    }
  | { readonly kind: "not-served"; readonly service: ServiceName; readonly reason: Reason };

/**
 * Answers a query.
 * @param detail the detail of the explanations of several connections; a single one is always whole
 * @throws AppError BAD_ARGUMENT for an unknown Service or port
 */
export function reportOf(query: ExplainQuery, input: ExplainInput, detail: Detail = "whole"): Report {
  if (query.kind === "all") return allReport(query, input, detail);
  if (query.kind === "connection")
    return { kind: "connection", explanation: explain(connectionOf(query.question, input), input) };
  const ignored = input.ignored.find(({ name }) => name === query.named.service);
  if (ignored !== undefined)
    return { kind: "not-served", service: ignored.name, reason: ignoredReason(ignored) };
  const ports = serviceConnections(query.named, query.from, input);
  return { kind: "service", ports: ports.map((port) => portReport(port, input, detail)) };
}

/**
 * With `--live`, all connections are explained: the kernel may have problems that the desired state does not
 * have.
 */
function allReport(
  { namespace, problemsOnly, from }: Extract<ExplainQuery, { readonly kind: "all" }>,
  input: ExplainInput,
  detail: Detail,
): Report {
  const all = input.cache.serviceNames();
  const names = all.filter((name) => namespace === undefined || namespaceOf(name) === namespace);
  const isSelective = problemsOnly && input.live === undefined;
  const ports = allConnections(names, isSelective, from, input).map((port) =>
    portReport(port, input, detail),
  );
  return {
    kind: "all",
    problemsOnly,
    services: names.length,
    ports: problemsOnly ? ports.flatMap(withProblemsOnly) : ports,
  };
}

function portReport({ port, connections }: PortConnections, input: ExplainInput, detail: Detail) {
  const title = `Service ${port.service.name}, port ${portSpecText(port.spec)}, ${FAMILY_NAMES[port.family]}`;
  return {
    /** `Service shop/cart, port http (80/tcp), IPv4` */
    title,
    service: port.service.name,
    explanations: connections.map((connection) => explain(connection, input, detail)),
  };
}

/**
 * Whether a connection to a Service fails, for some clients at random or for all, or its frontend belongs to
 * another one.
 */
function isProblem({ frontend, verdict }: Explanation, service: ServiceName): boolean {
  return hasFailed(verdict) || frontend?.service !== service;
}

function withProblemsOnly(report: PortReport): PortReport[] {
  const explanations = report.explanations.filter((one) => isProblem(one, report.service));
  return explanations.length === 0 ? [] : [{ ...report, explanations }];
}

/** Whether a connection fails. A client outside the source ranges is no failure. */
function hasFailed({ result, cause }: Verdict): boolean {
  if (cause === "not-programmed") return true;
  return result === "refused" || result === "dropped" || (result === "varies" && cause !== "source-ranges");
}

/** Whether a report has a connection that fails. */
export function hasFailures(report: Report): boolean {
  if (report.kind === "not-served") return false;
  if (report.kind === "connection") return hasFailed(report.explanation.verdict);
  return report.ports.some((port) => port.explanations.some((one) => isProblem(one, port.service)));
}

/** The output of `--output json`: schemas/explain.schema.json. */
export function reportJson(report: Report): unknown {
  if (report.kind === "not-served")
    return { explanations: [], notServed: { service: report.service, ...report.reason } };
  if (report.kind === "connection") return { explanations: [report.explanation] };
  return { explanations: report.ports.flatMap(({ explanations }) => explanations) };
}
