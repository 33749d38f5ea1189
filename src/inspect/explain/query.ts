import { type AppError, badArgument } from "../../base/errors.ts";
import type { Family } from "../../base/family.ts";
import { didYouMean } from "../../base/nearest.ts";
import { alternatives, listText } from "../../base/text.ts";
import { namespaceOf, type ServiceName } from "../../model/ids.ts";
import { familyOf } from "../../model/ip.ts";
import type { ServicePort } from "../../model/service-port.ts";
import { portsText } from "../../ruleset/keys.ts";
import { contextOf } from "../../ruleset/node-context.ts";
import { type FrontendView, type ServicePortView, viewService } from "../../ruleset/service-view.ts";
import type { ExplainInput } from "./explain-input.ts";
import type { Connection } from "./explanation.ts";
import { connectionOf, type GivenClient, type Question, reachedAddress } from "./packet.ts";
import { portSpecText } from "./words.ts";

/** The question to explain: one connection, a Service, one port of it by name or number, or all Services. */
export type ExplainQuery =
  | { readonly kind: "connection"; readonly question: Question }
  | {
      readonly kind: "service";
      readonly named: ServiceArgument;
      readonly from: GivenClient;
    }
  | {
      readonly kind: "all";
      /** Only frontends that are refused, dropped or lost to another Service. */
      readonly problemsOnly: boolean;
      readonly from: GivenClient;
      /** Absent for all namespaces. */
      readonly namespace?: string | undefined;
    };

/** A Service or one of its ports, as named by `--service`. */
export interface ServiceArgument {
  readonly service: ServiceName;
  /** Its name or number. */
  readonly port?: string | undefined;
}

/** Whether an argument names a service port. */
export function isNamed({ service, spec }: ServicePort, { service: name, port }: ServiceArgument): boolean {
  return service.name === name && (port === undefined || port === spec.name || port === String(spec.port));
}

/** A connection to each frontend of one Service port, in one family. */
export interface PortConnections {
  readonly port: ServicePort;
  readonly connections: readonly Connection[];
}

/**
 * Makes a connection to each frontend of a Service. Without a given client, it comes from a pod to the
 * cluster IP, and from outside to other addresses.
 * @throws AppError BAD_ARGUMENT for a Service or port that does not exist
 */
export function serviceConnections(
  named: ServiceArgument,
  from: GivenClient,
  input: ExplainInput,
): PortConnections[] {
  const { service, port = "" } = named;
  const views = viewService(input.cache, service, input.nodeContext, input.state);
  if (views.length === 0) throw unknownService(service, input);
  const namedPorts = views.filter((view) => isNamed(view.port, named));
  if (namedPorts.length > 0) return namedPorts.flatMap((view) => portConnections(view, from, input));
  // A port in a range of the Service has the frontends of this range alone.
  const isInRange = ({ port: first, lastPort }: FrontendView) =>
    lastPort !== undefined && first <= Number(port) && Number(port) <= lastPort;
  if (!views.some(({ frontends }) => frontends.some(isInRange))) throw unknownPort(service, port, views);
  return views.flatMap((view) =>
    portConnections({ ...view, frontends: view.frontends.filter(isInRange) }, from, input, Number(port)),
  );
}

/**
 * Makes a connection to each frontend of the Services of these names, in their order.
 * @param problemsOnly whether to skip frontends that the desired state serves to every client
 */
export function allConnections(
  names: readonly ServiceName[],
  problemsOnly: boolean,
  from: GivenClient,
  input: ExplainInput,
): PortConnections[] {
  return names.flatMap((name) =>
    viewService(input.cache, name, input.nodeContext, input.state).flatMap((view) => {
      const hasProblem = ({ outcome, owner }: FrontendView) =>
        outcome !== "served" || owner?.key !== view.port.key;
      const frontends = problemsOnly ? view.frontends.filter(hasProblem) : view.frontends;
      return portConnections({ ...view, frontends }, from, input);
    }),
  );
}

/**
 * The connections to the frontends of a view; none if it has none, or is of another family than the client.
 * @param asked the port of all of them; their own if absent
 */
function portConnections(
  { port, frontends }: ServicePortView,
  from: GivenClient,
  input: ExplainInput,
  asked?: number,
): PortConnections[] {
  if (from.fromAddress !== undefined && familyOf(from.fromAddress) !== port.family) return [];
  const { protocol } = port.spec;
  const isAsked = from.fromAddress !== undefined || from.source !== undefined;
  const connections = frontends.flatMap((frontend) => {
    const { origin, address } = frontend;
    const to = origin === "node-port" ? nodePortAddress(port.family, input) : address;
    const client = isAsked ? from : ({ source: origin === "cluster-ip" ? "pod" : "outside" } as const);
    const question = { ...client, port: asked ?? ownPort(frontend, port), protocol };
    return to === undefined ? [] : [connectionOf({ ...question, to }, input)];
  });
  return connections.length === 0 ? [] : [{ port, connections }];
}

/** The first port of a frontend that is not an explicit port of its Service, which would take precedence. */
function ownPort({ port, lastPort = port }: FrontendView, { service, spec }: ServicePort): number {
  const isExplicit = (number: number) =>
    service.ports.some((own) => own.port === number && own.protocol === spec.protocol);
  let asked = port;
  while (asked < lastPort && isExplicit(asked)) asked++;
  return asked;
}

/** An address that serves NodePorts; undefined if none does. */
function nodePortAddress(family: Family, input: ExplainInput): string | undefined {
  const nodePorts = contextOf(input.nodeContext, family)?.nodePorts;
  return nodePorts?.kind === "addresses" ? nodePorts.addresses[0] : reachedAddress(family, input);
}

function unknownService(service: ServiceName, { cache }: ExplainInput): AppError {
  if (cache.service(service) !== undefined) {
    return badArgument(`Service ${service} only has addresses of a family that this node lacks`, {
      hint: "see nft-proxy doctor on that node",
    });
  }
  return badArgument(`there is no Service ${service}`, {
    hint:
      likelyService(service, cache.serviceNames()) ??
      "names are namespace/name, as kubectl get services -A shows them",
  });
}

function unknownPort(service: ServiceName, port: string, views: readonly ServicePortView[]): AppError {
  const ranges = views.flatMap(({ frontends, port: { spec } }) =>
    frontends
      .filter(({ lastPort }) => lastPort !== undefined)
      .map((frontend) => `${portsText(frontend)}/${spec.protocol}`),
  );
  const ports = new Set([...views.map((view) => portSpecText(view.port.spec)), ...ranges]);
  return badArgument(`Service ${service} has no port ${port}`, {
    hint: `its ports are: ${listText([...ports])}`,
  });
}

/** Maximum number of Services of the same name to suggest. */
const MOST_NAMESAKES = 3;

/**
 * Suggests Services for a name that does not exist: of the same name in other namespaces, else of a similar
 * name, else in the same namespace. Undefined if there are none.
 */
export function likelyService(service: ServiceName, names: readonly ServiceName[]): string | undefined {
  const [namespace, name] = service.split("/");
  const namesakes = names.filter((one) => one.endsWith(`/${name}`));
  if (namesakes.length > 0) return `did you mean ${alternatives(namesakes.slice(0, MOST_NAMESAKES))}?`;
  const hint = didYouMean(service, names);
  if (hint !== undefined) return hint;
  const neighbours = names.filter((one) => namespaceOf(one) === namespace);
  return neighbours.length === 0 ? undefined : `in that namespace: ${listText(neighbours)}`;
}
