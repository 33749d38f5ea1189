import { FAMILIES, FAMILY_NAMES } from "../../base/family.ts";
import { RESOURCE_NAMES, type SourceState } from "../../kube/source.ts";
import type { Conflict } from "../../ruleset/ruleset-state.ts";
import { type Html, html } from "./html.ts";
import type { DaemonStatus } from "./status-source.ts";
import type { FullSyncRecord } from "./sync-history.ts";
import { durationWords, type Tone } from "./words.ts";

/** More of these are counted, not listed. */
const MOST_LISTED = 20;

/** How the daemon does: syncs, repairs, sources, and what is left out. */
export function overviewHtml(status: DaemonStatus): Html {
  return html`<section class="cards">
${healthCard(status)}${syncCard(status)}${fullSyncCard(status)}${repairCard(status)}${quarantineCard(status)}${contestedCard(status)}
</section>
${sourcesHtml(status)}`;
}

function card(title: string, tone: Tone, value: string, lines: readonly (string | Html)[]): Html {
  return html`<div class="card ${tone}"><h2>${title}</h2><p class="value">${value}</p>${lines.map((line) => html`<p>${line}</p>`)}</div>
`;
}

function healthCard({ health, dryRun }: DaemonStatus): Html {
  const isGood = health.proxyHealthy && health.nodeEligible;
  const value = health.proxyHealthy ? (health.nodeEligible ? "healthy" : "node is leaving") : "unhealthy";
  return card("Health", isGood ? "good" : "bad", value, [
    ...health.reasons,
    ...(dryRun ? ["dry run: applies nothing"] : []),
  ]);
}

function syncCard({ health, history, now }: DaemonStatus): Html {
  const times = FAMILIES.flatMap((family) => {
    const verdict = health.families[family];
    return verdict === undefined ? [] : [{ family, at: verdict.lastSynced }];
  });
  const known = times.flatMap(({ at }) => (at === undefined ? [] : [at]));
  const last = known.length === 0 ? "never" : `${durationWords(now - Math.min(...known))} ago`;
  const isAlike = new Set(times.map(({ at }) => at)).size === 1;
  const lines = (isAlike ? times.slice(0, 1) : times).map(({ family, at }) => {
    return `${isAlike ? "" : `${FAMILY_NAMES[family]}: `}${at === undefined ? "not yet" : timeText(at)}`;
  });
  const counts = `${history.syncs} syncs, ${history.failures} failed since the start`;
  return card("Last sync", known.length === 0 ? "idle" : "good", last, [...lines, counts]);
}

function fullSyncCard({ history: { fullSync }, now }: DaemonStatus): Html {
  if (fullSync === undefined) return card("Full resync", "idle", "none yet", []);
  const { reason, durationMs } = fullSync;
  const what = `${reason ?? "unknown reason"}, took ${(durationMs / 1000).toFixed(2)} s`;
  return card("Full resync", "good", agoText(fullSync, now), [what, timeText(fullSync.at)]);
}

function repairCard({ history: { repair, repairs }, now }: DaemonStatus): Html {
  if (repair === undefined) return card("Drift repairs", "good", "0", ["nobody else changed our rules"]);
  return card("Drift repairs", "idle", String(repairs), [`last ${agoText(repair, now)}`, repair.repaired ?? ""]);
}

function quarantineCard({ quarantined }: DaemonStatus): Html {
  const keys = [...quarantined].sort();
  return card("Quarantine", keys.length === 0 ? "good" : "bad", String(keys.length), listed(keys));
}

function contestedCard({ state }: DaemonStatus): Html {
  const lines = state.conflicts().flatMap(contestedLines);
  return card("Contested", lines.length === 0 ? "good" : "idle", String(lines.length), listed(lines));
}

function contestedLines({ frontend, winner, losers }: Conflict): string[] {
  const place = frontend.replaceAll(" . ", " ");
  return losers.map(({ name }) => `${place}: ${winner.name} has it, ${name} does not`);
}

function listed(lines: readonly string[]): string[] {
  const more = lines.length - MOST_LISTED;
  return [...lines.slice(0, MOST_LISTED), ...(more > 0 ? [`and ${more} more`] : [])];
}

function sourcesHtml({ sources, now }: DaemonStatus): Html {
  return html`<div class="sources"><table><caption>Sources</caption><thead><tr><th>Resource<th>State<th class="number">Objects<th>Last heard<th class="number">Relists<th class="number">Errors</thead><tbody>
${RESOURCE_NAMES.map((name) => sourceRow(name, sources[name], now))}</tbody></table></div>
`;
}

function sourceRow(name: string, state: SourceState, now: number): Html {
  const errors = Object.entries(state.errors).filter(([, count]) => count > 0);
  const total = errors.reduce((sum, [, count]) => sum + count, 0);
  const kinds = errors.map(([kind, count]) => `${kind} ${count}`).join(", ");
  const [tone, message] = sourceWords(state);
  const heard = state.lastEventAt === 0 ? "never" : `${durationWords(now - state.lastEventAt)} ago`;
  return html`<tr><td>${name}<td><span class="${tone}">${message}</span><td class="number">${state.objects}<td>${heard}<td class="number">${state.relists}<td class="number">${total}${kinds === "" ? "" : ` (${kinds})`}
`;
}

function sourceWords({ failure, absent, synced }: SourceState): readonly [Tone, string] {
  if (failure !== "") return ["bad", failure];
  if (absent) return ["idle", "not served here"];
  return synced ? ["good", "following"] : ["idle", "first list under way"];
}

function agoText({ at }: FullSyncRecord, now: number): string {
  return `${durationWords(now - at)} ago`;
}

function timeText(milliseconds: number): string {
  return `${new Date(milliseconds).toISOString().replace("T", " ").slice(0, 19)} UTC`;
}
