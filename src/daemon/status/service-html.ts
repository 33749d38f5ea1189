import { FAMILY_NAMES } from "../../base/family.ts";
import { counted, socketText } from "../../base/text.ts";
import { FEATURES } from "../../features/registry.ts";
import type { Service } from "../../model/service.ts";
import type { ServicePort } from "../../model/service-port.ts";
import { portsText } from "../../ruleset/keys.ts";
import { affinitySecondsOf } from "../../ruleset/node-context.ts";
import { REFUSAL_CAUSES } from "../../ruleset/refusal-causes.ts";
import type { EndpointView, FrontendView, ServicePortView } from "../../ruleset/service-view.ts";
import { EXCLUSION_NAMES, ORIGIN_NAMES } from "../../ruleset/service-view.ts";
import type { DaemonStatus } from "./daemon-status.ts";
import { clipped, type Html, html, type Tone } from "./html.ts";
import type { ListedService } from "./service-list.ts";

/** Maximum size of a name of an endpoint, as an EndpointSlice may have any text. Bytes. */
const LONGEST_CELL = 63;

/** Maximum size of an outcome, such as the reason of a quarantine. Bytes. */
const LONGEST_VERDICT = 200;

/** Options of the view of a Service. */
export interface ServiceDetail {
  readonly status: DaemonStatus;
  /** Maximum number of rows for each service port, and how many of them may be endpoints. */
  readonly rows: number;
  readonly mostEndpoints: number;
  /** Whether it is the Service's own page, on which endpoints are shown without a click. */
  readonly isOne: boolean;
  /** The address of that page. */
  readonly link: string;
}

/** Shows a Service with its frontends and endpoints. @param listed the service ports that `views` has */
export function serviceHtml(
  service: Service,
  { from, to, ports }: ListedService,
  views: readonly ServicePortView[],
  detail: ServiceDetail,
): Html {
  const isPending = detail.status.pending.services.includes(service.name);
  const part = to - from === ports ? undefined : html` <small>ports ${from + 1} to ${to} of ${ports}</small>`;
  return html`<article>
<h3><a href="${detail.link}">${service.name}</a>${badges(service, views, detail.status)}${part}${isPending ? html` <span class="idle">pending: not in the kernel yet</span>` : undefined}</h3>
${views.map((view) => portHtml(view, detail))}</article>
`;
}

/** The words are the same in both families; there are none if no family is programmed. */
function badges(service: Service, views: readonly ServicePortView[], status: DaemonStatus): Html[] {
  const [context] = status.nodeContext;
  if (context === undefined) return [];
  const isKept = views.every(({ port }) => port.service.affinitySeconds > 0);
  const sticky = isKept ? `sticky ${affinitySecondsOf(service, context)} s` : "session affinity not kept";
  const words = [
    ...(service.affinitySeconds > 0 ? [sticky] : []),
    ...FEATURES.flatMap(({ words }) => {
      const badges = views.map(({ port }) => words?.badge?.(port.service, context));
      return badges.includes(undefined) ? [] : badges.slice(0, 1);
    }),
    ...(service.internalPolicyLocal ? ["internal: Local"] : []),
    ...(service.externalPolicyLocal ? ["external: Local"] : []),
    ...(service.deleting ? ["deleting"] : []),
  ];
  return words.map((word) => html` <span class="badge">${word}</span>`);
}

function portHtml(view: ServicePortView, detail: ServiceDetail): Html {
  const { port, frontends } = view;
  const name = port.spec.name === "" ? "" : `${port.spec.name} `;
  const shown = frontends.slice(0, Math.max(1, Math.floor(detail.rows / 2)));
  const hidden = moreHtml(frontends.length - shown.length, port, detail);
  const mostEndpoints = Math.min(detail.mostEndpoints, detail.rows - shown.length);
  return html`<div class="port"><h4>${name}${port.spec.port}/${port.spec.protocol} <small>${FAMILY_NAMES[port.family]}</small></h4>
<ul class="frontends">${shown.map((frontend) => frontendHtml(port, frontend, detail.status))}${hidden && html`<li>${hidden}</li>`}</ul>
${endpointsHtml(view, mostEndpoints, detail)}</div>
`;
}

/** Counts the hidden frontends or endpoints of a service port, and says where to find them. */
function moreHtml(count: number, { service }: ServicePort, { isOne, link }: ServiceDetail): Html | undefined {
  if (count === 0) return undefined;
  if (isOne) return html`<p class="none">and ${count} more: nft-proxy explain ${service.name} lists all</p>`;
  return html`<p class="none"><a href="${link}">and ${count} more</a></p>`;
}

function frontendHtml(port: ServicePort, frontend: FrontendView, status: DaemonStatus): Html {
  const { origin, address, guarded } = frontend;
  const verdict = frontendVerdict(frontend, port.service.name, status.quarantined.get(port.key));
  const ports = portsText(frontend);
  const place = address === "" ? `:${ports}` : socketText(address, ports);
  const count = status.connections?.toFrontend(port, frontend);
  // Intervals of ports are then only served at addresses that are not the node's own.
  const notHere =
    frontend.lastPort !== undefined && origin !== "cluster-ip" && status.state.areIntervalsVirtual;
  const words = `${guarded ? ", source ranges" : ""}${notHere ? ", not where the address is the node's own" : ""}`;
  return html`<li><code>${place}</code> <small>${ORIGIN_NAMES[origin]}${words}</small> ${verdictHtml(verdict)}${countHtml(count)}</li>
`;
}

function endpointsHtml(view: ServicePortView, most: number, detail: ServiceDetail): Html {
  const { port, endpoints, choice } = view;
  if (endpoints.length === 0)
    return html`<p class="none">No EndpointSlice has an endpoint for this port.</p>`;
  const used = endpoints.filter(isUsed).length;
  const left = endpoints.length - used;
  const shown = endpoints.slice(0, most);
  const more = endpoints.length - shown.length;
  const hints =
    choice.topology === "none" ? "" : `, ${choice.topology === "same-zone" ? "zone" : "node"} hints followed`;
  return html`<details${detail.isOne ? html` open` : undefined}><summary>${used} of ${counted(endpoints.length, "endpoint")} used${left > 0 ? `, ${left} excluded` : ""}${hints}</summary>
<table><thead><tr><th>Endpoint<th>State<th>Node<th>Zone<th>Pod${detail.status.connections === undefined ? undefined : html`<th class="number">Connections`}</thead><tbody>
${shown.map((view) => endpointHtml(port, view, detail.status))}</tbody></table>
${moreHtml(more, port, detail)}</details>`;
}

function endpointHtml(owner: ServicePort, view: EndpointView, { connections }: DaemonStatus): Html {
  const { address, port, local, source } = view.endpoint;
  const count = connections?.toEndpoint(owner, address, port);
  return html`<tr><td><code>${socketText(address, port)}</code><td>${verdictHtml(endpointVerdict(view))}<td>${clipped(source.nodeName, LONGEST_CELL)}${local ? html` <span class="badge">this node</span>` : undefined}<td>${clipped(source.zone, LONGEST_CELL)}<td>${clipped(source.pod, LONGEST_CELL)}${count === undefined ? undefined : html`<td class="number" data-unit="connections">${count}`}
`;
}

function verdictHtml({ tone, message }: Verdict): Html {
  return html`<span class="${tone}">${clipped(message, LONGEST_VERDICT)}</span>`;
}

function countHtml(count: number | undefined): Html | undefined {
  return count === undefined ? undefined : html` <small>${counted(count, "connection")}</small>`;
}

/** A message with its colour. */
interface Verdict {
  readonly tone: Tone;
  readonly message: string;
}

/** Returns the outcome of an endpoint in both lists. */
function endpointVerdict({ cluster, local }: EndpointView): Verdict {
  const reason = (outcome: EndpointView["cluster"]) =>
    outcome === undefined || outcome === "used" ? "" : EXCLUSION_NAMES[outcome];
  if (cluster === "used" && (local === undefined || local === "used"))
    return { tone: "good", message: "used" };
  if (cluster === "used") return { tone: "good", message: `used, but not by policy Local: ${reason(local)}` };
  if (local !== "used") return { tone: "idle", message: reason(cluster) || reason(local) };
  return {
    tone: "good",
    message: cluster === undefined ? "used" : `used by policy Local only: ${reason(cluster)}`,
  };
}

/** Whether an endpoint gets any traffic. */
function isUsed({ cluster, local }: EndpointView): boolean {
  return cluster === "used" || local === "used";
}

/** Returns the outcome of a connection from outside. @param quarantined the reason; undefined if it is not */
function frontendVerdict(view: FrontendView, service: string, quarantined: string | undefined): Verdict {
  const { outcome, endpoints, owner, policy } = view;
  if (quarantined !== undefined) return { tone: "bad", message: `quarantined: ${quarantined}` };
  if (owner === undefined) return { tone: "idle", message: "not programmed yet" };
  if (owner.service.name !== service) return { tone: "bad", message: `held by ${owner.name}` };
  if (outcome !== "served") {
    const { result, message } = REFUSAL_CAUSES[outcome];
    return { tone: "bad", message: `${result}: ${message}` };
  }
  const where = policy === "local" ? " on this node" : "";
  return { tone: "good", message: `${counted(endpoints.length, "endpoint")}${where}` };
}
