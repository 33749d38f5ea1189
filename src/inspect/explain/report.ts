import { FAMILY_NAMES } from "../../base/family.ts";
import type { ServiceName } from "../../model/ids.ts";
import type { Reason } from "./endpoint-causes.ts";
import { explain } from "./explain.ts";
import type { ExplainInput } from "./explain-input.ts";
import type { Explanation } from "./explanation.ts";
import { ignoredReason } from "./outside-causes.ts";
import { connectionOf } from "./packet.ts";
import type { ExplainQuery } from "./query.ts";
import { serviceConnections } from "./service-queries.ts";
import { portSpecText } from "./words.ts";

/** The connections of one Service port in one family. */
export interface PortReport {
  /** `Service shop/cart, port http (80/tcp), IPv4` */
  readonly title: string;
  readonly explanations: readonly Explanation[];
}

/** The answer to a query. */
export type Report =
  | { readonly kind: "connection"; readonly explanation: Explanation }
  | { readonly kind: "service"; readonly ports: readonly PortReport[] }
  | { readonly kind: "not-served"; readonly service: ServiceName; readonly reason: Reason };

/** Answers. Throws AppError BAD_ARGUMENT for a Service that there is not, NFT_OUTPUT for rules that are not ours. */
export function reportOf(asked: ExplainQuery, input: ExplainInput): Report {
  if (asked.kind === "connection") {
    return { kind: "connection", explanation: explain(connectionOf(asked.question, input), input) };
  }
  const ignored = input.ignored.find(({ name }) => name === asked.named.service);
  if (ignored !== undefined) {
    return { kind: "not-served", service: ignored.name, reason: ignoredReason(ignored) };
  }
  const ports = serviceConnections(asked.named, asked.from, input).map(({ view, connections }) => ({
    title: `Service ${asked.named.service}, port ${portSpecText(view.port.spec)}, ${FAMILY_NAMES[view.port.family]}`,
    explanations: connections.map((connection) => explain(connection, input)),
  }));
  return { kind: "service", ports };
}

/** The output of `--output json`: schemas/explain.schema.json. */
export function reportJson(report: Report): unknown {
  switch (report.kind) {
    case "connection":
      return { explanations: [report.explanation] };
    case "service":
      return { explanations: report.ports.flatMap(({ explanations }) => explanations) };
    case "not-served":
      return { explanations: [], notServed: { service: report.service, ...report.reason } };
  }
}
