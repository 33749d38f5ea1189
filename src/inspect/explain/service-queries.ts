import { AppError } from "../../base/errors.ts";
import { listText } from "../../base/text.ts";
import type { ServiceName } from "../../model/ids.ts";
import { familyOf, isLoopback } from "../../model/ip.ts";
import { type FrontendView, type ServicePortView, viewService } from "../../ruleset/service-view.ts";
import type { ExplainInput } from "./explain-input.ts";
import type { Connection } from "./explanation.ts";
import { likelyService } from "./likely-service.ts";
import { connectionOf, type Question } from "./packet.ts";
import { type ExplainQuery, isNamed, type ServiceArgument } from "./query.ts";
import { portSpecText } from "./words.ts";

type AllQuery = Extract<ExplainQuery, { readonly kind: "all" }>;

/** The connections by which one port of a Service, in one family, is reached. */
export interface PortConnections {
  readonly view: ServicePortView;
  readonly connections: readonly Connection[];
}

/**
 * A connection to each frontend of a Service: from a pod to its cluster IP, from outside to all else, unless told.
 * @throws AppError BAD_ARGUMENT for a Service or port that there is not
 */
export function serviceConnections(
  named: ServiceArgument,
  from: Pick<Question, "fromAddress" | "source">,
  input: ExplainInput,
): PortConnections[] {
  const { service, port } = named;
  const views = viewService(input.cache, service, input.nodeContext, input.state.families);
  if (views.length === 0) throw unknownService(service, input);
  const wanted = views.filter((view) => isNamed(view.port, named));
  if (wanted.length === 0) throw unknownPort(service, port ?? "", views);
  return wanted
    .filter(({ port: { family } }) => from.fromAddress === undefined || familyOf(from.fromAddress) === family)
    .map((view) => ({
      view,
      connections: view.frontends.flatMap((frontend) => connectionTo(frontend, view, from, input)),
    }));
}

/**
 * A connection to each frontend of all Services, or of those of one namespace, by the name of the Service.
 * @param problemsOnly whether to skip frontends that the desired state serves to every client
 */
export function allConnections({ namespace, problemsOnly, from }: AllQuery, input: ExplainInput): PortConnections[] {
  const names = input.cache
    .serviceNames()
    .filter((name) => namespace === undefined || name.startsWith(`${namespace}/`));
  return names.flatMap((name) =>
    viewService(input.cache, name, input.nodeContext, input.state.families).flatMap((view) => {
      const frontends = problemsOnly ? view.frontends.filter((frontend) => hasProblem(frontend, view)) : view.frontends;
      const connections = frontends.flatMap((frontend) => connectionTo(frontend, view, from, input));
      return connections.length === 0 ? [] : [{ view, connections }];
    }),
  );
}

/** Whether a frontend is refused or dropped, or another Service port has it. */
function hasProblem({ outcome, owner }: FrontendView, { port }: ServicePortView): boolean {
  return outcome !== "served" || owner?.key !== port.key;
}

function connectionTo(
  { origin, address, port }: FrontendView,
  { port: { spec, family } }: ServicePortView,
  from: Pick<Question, "fromAddress" | "source">,
  input: ExplainInput,
): Connection[] {
  const to = origin === "node-port" ? nodePortAddress(family, input) : address;
  if (to === undefined) return [];
  const isAsked = from.fromAddress !== undefined || from.source !== undefined;
  const source = isAsked ? from : { source: origin === "cluster-ip" ? ("pod" as const) : ("outside" as const) };
  return [connectionOf({ ...source, to, port, protocol: spec.protocol }, input)];
}

/** An address at which NodePorts are served; undefined when there is none. */
function nodePortAddress(family: "ip" | "ip6", { nodeContext, host }: ExplainInput): string | undefined {
  const context = nodeContext.find((one) => one.family === family);
  if (context?.nodePorts.kind === "addresses") return context.nodePorts.addresses[0];
  if (context !== undefined && context.nodeAddress !== "") return context.nodeAddress;
  return [...host.localAddresses].find((address) => familyOf(address) === family && !isLoopback(address));
}

function unknownService(service: ServiceName, { cache }: ExplainInput): AppError {
  return new AppError("BAD_ARGUMENT", `there is no Service ${service}`, {
    hint:
      likelyService(service, cache.serviceNames()) ?? "names are namespace/name, as kubectl get services -A shows them",
  });
}

function unknownPort(service: ServiceName, port: string, views: readonly ServicePortView[]): AppError {
  const ports = new Set(views.map((view) => portSpecText(view.port.spec)));
  return new AppError("BAD_ARGUMENT", `Service ${service} has no port ${port}`, {
    hint: `its ports are: ${listText([...ports])}`,
  });
}
