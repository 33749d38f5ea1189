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

/** The style of the status page. Nothing else is loaded. */
const STATUS_STYLE = `
:root { color-scheme: light dark; --text: #1c2128; --dim: #5a6472; --page: #f5f6f8; --card: #fff; --line: #d5dae1;
  --link: #0b57d0; --good: #0a6b3d; --good-back: #e2f4ea; --bad: #a8201a; --bad-back: #fce8e6; --idle: #6b5300; --idle-back: #fdf3d1; }
@media (prefers-color-scheme: dark) { :root { --text: #e3e7ed; --dim: #9aa5b4; --page: #14171c; --card: #1d2229;
  --line: #343b46; --link: #8ab4f8; --good: #7ddba3; --good-back: #12372a; --bad: #ff9a92; --bad-back: #4a1d1b;
  --idle: #f0d27a; --idle-back: #3d3413; } }
* { box-sizing: border-box; }
body { margin: 0; font: 15px/1.45 system-ui, sans-serif; color: var(--text); background: var(--page); }
header, main, footer { max-width: 1200px; margin: 0 auto; padding: 0 16px; }
header { display: flex; flex-wrap: wrap; align-items: baseline; gap: 4px 16px; padding-top: 16px; }
h1 { font-size: 22px; margin: 0; } h2, h3, h4 { margin: 0; } h2 { font-size: 13px; font-weight: 600; color: var(--dim); }
h3 { font-size: 16px; overflow-wrap: anywhere; } h4 { font-size: 14px; font-weight: 600; }
a { color: var(--link); } small, .none { color: var(--dim); } code { font: 13px ui-monospace, monospace; overflow-wrap: anywhere; }
nav a { margin-right: 12px; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(165px, 1fr)); gap: 10px; margin: 16px 0; grid-auto-flow: dense; }
.card, article, .table, form { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 10px 14px; }
.card { border-top: 3px solid var(--good); } .card.bad { border-top-color: var(--bad); } .card.idle { border-top-color: var(--idle); }
.card p { margin: 2px 0; font-size: 13px; color: var(--dim); overflow-wrap: anywhere; } .card .value { font-size: 20px; color: var(--text); }
.card.wide { grid-column: span 2; } .spark { display: block; width: 100%; height: 36px; border-bottom: 1px solid var(--line); }
.spark rect { fill: var(--link); }
span.good, span.bad, span.idle { padding: 1px 6px; border-radius: 4px; font-size: 13px; overflow-wrap: anywhere; }
span.good { color: var(--good); background: var(--good-back); } span.bad { color: var(--bad); background: var(--bad-back); }
span.idle { color: var(--idle); background: var(--idle-back); }
.badge { font-size: 12px; font-weight: 400; color: var(--dim); border: 1px solid var(--line); border-radius: 4px; padding: 0 5px; white-space: nowrap; }
table { border-collapse: collapse; width: 100%; font-size: 13px; } caption { text-align: left; font-weight: 600; color: var(--dim); }
th, td { text-align: left; padding: 3px 10px 3px 0; border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere; }
th { color: var(--dim); font-weight: 600; } .number { text-align: right; font-variant-numeric: tabular-nums; }
.table { margin: 12px 0; } .table td, .table th { overflow-wrap: normal; } .table :is(td, th):last-child { padding-right: 0; }
form { display: flex; flex-wrap: wrap; gap: 8px 14px; align-items: center; margin: 16px 0 8px; }
input, select, button { font: inherit; color: inherit; background: var(--page); border: 1px solid var(--line); border-radius: 6px; padding: 5px 9px; }
input[type=search] { flex: 1 1 220px; min-width: 0; } button { cursor: pointer; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 1px; }
article { margin: 10px 0; }
.port { display: grid; grid-template-columns: 150px minmax(0, 1fr); gap: 0 12px; margin-top: 6px; padding-top: 6px; border-top: 1px solid var(--line); }
.port h4 { grid-row: 1 / span 2; padding-top: 2px; overflow-wrap: anywhere; }
.frontends { list-style: none; margin: 0 0 2px; padding: 0; } .frontends li { padding: 2px 0; }
details { margin-top: 2px; } summary { cursor: pointer; color: var(--dim); font-size: 13px; padding: 3px 0; }
.none { margin: 4px 0; font-size: 13px; } .pager { display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 8px 0; color: var(--dim); }
footer { padding: 16px; color: var(--dim); font-size: 13px; }
@media (max-width: 640px) {
  .port { display: block; }
  .sources table, .sources tbody, .sources tr { display: block; } .sources thead { display: none; }
  .sources td { display: inline-block; border: 0; padding: 1px 12px 1px 0; text-align: left; }
  .sources td:first-child { font-weight: 600; } .sources tr { padding: 4px 0; border-bottom: 1px solid var(--line); }
  .sources td[data-label]::before { content: attr(data-label) " "; color: var(--dim); }
  details table, details thead, details tbody, details tr, details td { display: block; }
  details thead { display: none; } details tr { padding: 5px 0; border-bottom: 1px solid var(--line); }
  details td { border: 0; padding: 1px 0; text-align: left; } details td:empty { display: none; }
  details td[data-unit]::after { content: " " attr(data-unit); color: var(--dim); }
  .cards { grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); }
}
`;

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
  const ports = list.services.reduce((sum, { from, to }) => sum + to - from, 0);
  const rows = Math.floor(ROWS_OF_PAGE / Math.max(ports, 1));
  const services = list.services.flatMap((listed) => {
    const { name } = listed;
    const service = status.cache.service(name);
    if (service === undefined) return [];
    const views = viewService(status.cache, name, status.nodeContext, status.state, listed);
    const mostEndpoints = isOne ? rows : ENDPOINTS_IN_LIST;
    const link = statusLink(query, { service: name, page: 1, text: "", problemsOnly: false });
    return [serviceHtml(service, listed, views, { status, rows, mostEndpoints, isOne, link })];
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
