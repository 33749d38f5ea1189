import { createHash } from "node:crypto";
import { durationWords } from "../../base/duration.ts";
import { viewService } from "../../ruleset/service-view.ts";
import type { HttpAnswer } from "../http/http-server.ts";
import type { DaemonStatus } from "./daemon-status.ts";
import { Html, html } from "./html.ts";
import { overviewHtml } from "./overview-html.ts";
import { serviceHtml } from "./service-html.ts";
import {
  DEFAULT_REFRESH,
  listServices,
  REFRESH_PERIODS,
  readStatusQuery,
  type ServiceList,
  type StatusQuery,
  servicesWithProblems,
  statusLink,
} from "./service-list.ts";
import { STATUS_STYLE } from "./status-style.ts";

/**
 * Number of rows for frontends and endpoints on a page. Each service port has its share: less than 500 kB.
 */
const ROWS_OF_PAGE = 1500;

/** Maximum number of endpoints of a service port in the list. On a Service's own page, its share counts. */
const ENDPOINTS_IN_LIST = 20;

/** No script runs, nothing is loaded, and only our style applies, so that unescaped text would do nothing. */
const POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash("sha256").update(STATUS_STYLE).digest("base64")}'`,
  "img-src data:",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join("; ");

/** Makes the status page for a query. It changes nothing, and has less than 500 kB with any Services. */
export function statusPage(status: DaemonStatus, parameters: URLSearchParams): HttpAnswer {
  const query = readStatusQuery(parameters);
  return {
    status: 200,
    contentType: "text/html; charset=utf-8",
    headers: { "Content-Security-Policy": POLICY, "Referrer-Policy": "no-referrer" },
    body: page(status, query).text,
  };
}

function page(status: DaemonStatus, query: StatusQuery): Html {
  const { cache, version, startedAt, now } = status;
  const refresh =
    query.refresh === 0 ? undefined : html`<meta http-equiv="refresh" content="${query.refresh}">`;
  return html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">${refresh}
<title>nft-proxy on ${cache.node.name}</title><link rel="icon" href="data:,"><style>${new Html(STATUS_STYLE)}</style></head>
<body><header><h1>nft-proxy</h1><span>${cache.node.name}${cache.node.zone === "" ? "" : `, ${cache.node.zone}`}</span>
<small>version ${version}, up ${durationWords(now - startedAt)}</small>
<nav>${refreshHtml(query)}<a href="/metrics">metrics</a><a href="/configz">configz</a><a href="/flagz">flagz</a><a href="/statusz">statusz</a></nav></header>
<main>${query.service === "" ? overviewHtml(status) : undefined}${servicesHtml(status, query)}</main>
<footer>Services as this node should serve them. Counts are of new connections since the rules for them were made.</footer></body></html>
`;
}

/** A switch that works without a script, on each page. */
function refreshHtml(query: StatusQuery): Html {
  return query.refresh === 0
    ? html`<a href="${statusLink(query, { refresh: DEFAULT_REFRESH })}">refresh every ${DEFAULT_REFRESH} s</a>`
    : html`<a href="${statusLink(query, { refresh: 0 })}">stop refreshing</a>`;
}

function servicesHtml(status: DaemonStatus, query: StatusQuery): Html {
  const problems = servicesWithProblems(status);
  const list = listServices(status, problems, query);
  const isOne = query.service !== "";
  const pending = new Set(status.pending.services);
  const ports = list.services.reduce((sum, { from, to }) => sum + to - from, 0);
  const rows = Math.floor(ROWS_OF_PAGE / Math.max(ports, 1));
  const services = list.services.flatMap((listed) => {
    const { name } = listed;
    const service = status.cache.service(name);
    if (service === undefined) return [];
    const views = viewService(status.cache, name, status.nodeContext, status.state, listed);
    const detail = {
      quarantined: ({ port }: (typeof views)[number]) => status.quarantined.get(port.key),
      isPending: pending.has(name),
      context: status.nodeContext[0],
      areIntervalsVirtual: Object.values(status.state.families).some((one) => one.areIntervalsVirtual),
      connections: status.connections,
      rows,
      mostEndpoints: isOne ? rows : ENDPOINTS_IN_LIST,
      isOne,
      link: statusLink(query, { service: name, page: 1, text: "", problemsOnly: false }),
    };
    return [serviceHtml(service, listed, views, detail)];
  });
  const pager = pagerHtml(query, list, status.cache.serviceCount);
  const head = isOne
    ? html`<p><a href="${statusLink(query, { service: "", page: 1 })}">All Services</a></p>${list.pages > 1 ? pager : undefined}`
    : html`${filterHtml(query, problems.size)}${pager}`;
  return html`${head}${services}${services.length === 0 ? html`<p class="none">No matching Services.</p>` : undefined}${list.pages > 1 ? pager : undefined}`;
}

function filterHtml({ text, problemsOnly, refresh }: StatusQuery, problems: number): Html {
  const option = (seconds: number) =>
    html`<option value="${seconds}"${seconds === refresh ? html` selected` : undefined}>${seconds === 0 ? "never" : `every ${seconds} s`}</option>`;
  return html`<form method="get" action="/" role="search"><input type="search" name="q" value="${text}" placeholder="Name, address or port" aria-label="Filter by name, address or port">
<label><input type="checkbox" name="show" value="problems"${problemsOnly ? html` checked` : undefined}> only the ${problems} with problems</label>
<label>refresh <select name="refresh">${REFRESH_PERIODS.map(option)}</select></label>
<button>Show</button></form>
`;
}

function pagerHtml(query: StatusQuery, { matching, page, pages }: ServiceList, total: number): Html {
  const step = (to: number, says: string, rel: string) =>
    to < 1 || to > pages
      ? undefined
      : html`<a rel="${rel}" href="${statusLink(query, { page: to })}">${says}</a>`;
  const which = pages === 1 ? "" : `, page ${page} of ${pages}`;
  return html`<div class="pager"><span>${matching} of ${total} Services${which}</span>${step(page - 1, "previous", "prev")}${step(page + 1, "next", "next")}</div>
`;
}
