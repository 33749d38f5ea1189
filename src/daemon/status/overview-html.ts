import { durationWords } from "../../base/duration.ts";
import { FAMILY_NAMES } from "../../base/family.ts";
import { counted, moreLines, rounded } from "../../base/text.ts";
import type { FeatureCard } from "../../features/seam/daemon-part.ts";
import { costlyTablesAdvice, costlyTableText } from "../../kernel/others-sets.ts";
import type { Conflict } from "../../ruleset/family-state.ts";
import { frontendText } from "../../ruleset/keys.ts";
import type { ProblemKind } from "../../socket/daemon-protocol.ts";
import { quarantinedServices, quarantinedText } from "../../sync/quarantine-changes.ts";
import type { HealthReport } from "../health/health.ts";
import type { DaemonStatus } from "./daemon-status.ts";
import { clipped, Html, html, type Tone } from "./html.ts";
import { limitsHtml, sourcesHtml } from "./tables-html.ts";

/** Maximum number of lines in a card; the rest is counted. */
const MOST_LISTED = 20;

/** Maximum size of a line of a card. Bytes. */
const LONGEST_LINE = 500;

/** Time out of sync in one minute from which the card is marked. Milliseconds. */
const LONG_OUT_OF_SYNC = 30_000;

/**
 * Shows the state of the daemon: syncs, verification, repairs, memory, sources, limits, and excluded
 * Services.
 */
export function overviewHtml(status: DaemonStatus): Html {
  return html`<section class="cards">
${healthCard(status)}${problemsCard(status)}${syncCard(status)}${pendingCard(status)}${verificationCard(status)}${repairCard(status)}${quarantineCard(status)}${conflictCard(status)}${status.cards?.map(featureCard)}
${syncsCard(status)}${outOfSyncCard(status)}${otherSetsCard(status)}${memoryCard(status)}${versionsCard(status)}
</section>
${sourcesHtml(status)}${limitsHtml(status)}`;
}

function card(title: string, tone: Tone, value: string, lines: readonly (string | Html)[], width = ""): Html {
  return html`<div class="card ${tone}${width}"><h2>${title}</h2><p class="value">${value}</p>${lines.map((line) => (line instanceof Html ? line : html`<p>${clipped(line, LONGEST_LINE)}</p>`))}</div>
`;
}

function wideCard(title: string, tone: Tone, value: string, lines: readonly (string | Html)[]): Html {
  return card(title, tone, value, lines, " wide");
}

/** Shows a failing sync even before it makes the proxy unhealthy. */
function healthCard({ health, history: { problem }, dryRun }: DaemonStatus): Html {
  const text = healthText(health, problem);
  return card("Health", text === HEALTHY ? "good" : "bad", text, [
    ...health.reasons,
    ...(dryRun ? ["dry run: applies nothing"] : []),
  ]);
}

/** The problems, each with its remedy; empty without one. Those with a card of their own are not repeated. */
function problemsCard({ problems }: DaemonStatus): Html | undefined {
  const shown = problems.filter(({ kind }) => !HAS_CARD.has(kind));
  if (shown.length === 0) return undefined;
  const tone = shown.some(({ level }) => level === "fault") ? "bad" : "idle";
  const lines = shown.flatMap(({ found, means, action }) =>
    [found, means, action].filter((line) => line !== undefined),
  );
  return wideCard("Problems", tone, String(shown.length), lines);
}

const HAS_CARD: ReadonlySet<ProblemKind> = new Set(["quarantine", "conflict", "ejected-endpoints"]);

const HEALTHY = "healthy";

function healthText(health: HealthReport, problem: string | undefined): string {
  if (!health.proxyHealthy) return "unhealthy";
  if (problem !== undefined) return "syncs fail";
  const excluded = health.families.filter(({ isExcluded }) => isExcluded);
  const names = excluded.map(({ family }) => FAMILY_NAMES[family]);
  if (names.length > 0) return `without ${names.join(" and ")}`;
  return health.nodeEligible ? HEALTHY : "node not eligible";
}

/** The times of the families, if the kernel refuses one. */
function syncCard({ health, history, now }: DaemonStatus): Html {
  const { lastSynced, families } = health;
  const textOf = (at: number | undefined) => (at === undefined ? "not yet" : timeText(at));
  const ofFamilies = families.map((one) => `${FAMILY_NAMES[one.family]}: ${textOf(one.lastSynced)}`);
  const lines = families.some(({ isExcluded }) => isExcluded) ? ofFamilies : [textOf(lastSynced)];
  const last = lastSynced === undefined ? "never" : `${durationWords(now - lastSynced)} ago`;
  const counts = `${counted(history.syncs, "sync")}, ${history.failures} failed since the start`;
  return card("Last sync", lastSynced === undefined ? "idle" : "good", last, [...lines, counts]);
}

function pendingCard({ pending: { since, services }, history, now }: DaemonStatus): Html {
  if (since === undefined) return card("Pending", "good", "nothing", ["the kernel has every change"]);
  if (history.lastSyncedAt === undefined)
    return card("Pending", "idle", "the first sync", [`for ${durationWords(now - since)}`]);
  const value = services.length === 0 ? "a change" : counted(services.length, "Service");
  return card("Pending", "idle", value, [`for ${durationWords(now - since)}`, ...listed(services)]);
}

function featureCard({ title, tone, value, lines, list }: FeatureCard): Html {
  return card(title, tone, value, [...lines, ...listed(list)]);
}

/** Empty if no table of other software costs much. */
function otherSetsCard({ costlyTables }: DaemonStatus): Html | undefined {
  if (costlyTables.length === 0) return undefined;
  const total = costlyTables.reduce((sum, { ms }) => sum + ms, 0);
  return wideCard("Sets of other software", "idle", `${total} ms`, [
    "slow down changes of both IP families, and every other call of nft",
    ...listed(costlyTables.map(costlyTableText)),
    costlyTablesAdvice(costlyTables),
  ]);
}

/** Share of the limit from which the card is marked, as in the alert NftProxyMemoryNearLimit. */
const MUCH_MEMORY = 0.5;

/**
 * All processes of the container together, and each program. Outside a container, the sum of the programs.
 */
function memoryCard({ memory: { own, container, programs } }: DaemonStatus): Html {
  const total = container?.workingSet ?? programs.reduce((sum, { resident }) => sum + resident, own);
  const { limit, peak } = container ?? {};
  const tone = limit !== undefined && total >= MUCH_MEMORY * limit ? "idle" : "good";
  return wideCard("Memory", tone, megabytes(total), [
    ...(limit === undefined ? [] : [`of ${megabytes(limit)}, the limit of the container`]),
    ...(peak === undefined ? [] : [`at most ${megabytes(peak)}, with page cache`]),
    `daemon: ${megabytes(own)}`,
    ...programs.map(
      (one) => `${one.program}: ${megabytes(one.resident)}, one process at most ${megabytes(one.peak)}`,
    ),
  ]);
}

function versionsCard({ version, hostVersions: { nft, kernel, socat, nodejs } }: DaemonStatus): Html {
  return wideCard("Versions", "good", version, [
    nft,
    `Linux ${kernel}`,
    `socat ${socat}`,
    `Node.js ${nodejs}`,
  ]);
}

function megabytes(bytes: number): string {
  return `${rounded(bytes / 1e6)} MB`;
}

/**
 * Shows when all elements were last compared with the kernel, and the last full sync, which repairs
 * differences.
 */
function verificationCard({ history: { fullSync, verifiedAt }, now }: DaemonStatus): Html {
  if (fullSync === undefined || verifiedAt === undefined) return card("Verification", "idle", "none yet", []);
  const { reason, durationMs } = fullSync;
  const why = reason === undefined ? "" : ` (reason: ${reason})`;
  const summary = `full sync${why}, took ${secondsText(durationMs)}`;
  return card("Verification", "good", `${durationWords(now - verifiedAt)} ago`, [
    summary,
    timeText(fullSync.at),
  ]);
}

function syncsCard({ timeline }: DaemonStatus): Html {
  const syncs = timeline.map((minute) => minute.syncs);
  const total = syncs.reduce((sum, count) => sum + count, 0);
  const most = Math.max(...syncs, 0);
  const chart = sparklineHtml(syncs, `syncs by minute, ${most} at most`);
  return wideCard("Syncs, last hour", "good", String(total), [chart, `at most ${most} in a minute`]);
}

function outOfSyncCard({ timeline }: DaemonStatus): Html {
  const times = timeline.map(({ outOfSyncMs }) => outOfSyncMs);
  const total = times.reduce((sum, time) => sum + time, 0);
  const most = Math.max(...times, 0);
  const chart = sparklineHtml(times, `time out of sync by minute, ${secondsText(most)} at most`);
  const tone = most > LONG_OUT_OF_SYNC ? "idle" : "good";
  return wideCard("Out of sync, last hour", tone, secondsText(total), [
    chart,
    `at most ${secondsText(most)} in a minute`,
  ]);
}

function secondsText(milliseconds: number): string {
  return `${rounded(milliseconds / 1000)} s`;
}

function repairCard({ history: { repair, repairs }, now }: DaemonStatus): Html {
  if (repair === undefined) return card("Drift repairs", "good", "0", ["no other program changed our rules"]);
  return card("Drift repairs", "idle", String(repairs), [
    `last ${durationWords(now - repair.at)} ago`,
    repair.repaired ?? "",
  ]);
}

function quarantineCard({ quarantined }: DaemonStatus): Html {
  const services = quarantinedServices(quarantined)
    .map((each) => `${quarantinedText(each)}: ${each.reason}`)
    .sort();
  return card(
    "Quarantine",
    quarantined.size === 0 ? "good" : "bad",
    String(quarantined.size),
    listed(services),
  );
}

function conflictCard({ state }: DaemonStatus): Html {
  const count = state.lostFrontends;
  if (count === 0) return card("Conflicts", "good", "0", []);
  const lines = state.conflicts(MOST_LISTED).flatMap(conflictLines).slice(0, MOST_LISTED);
  const more = moreLines(count - lines.length);
  return card("Conflicts", "idle", String(count), [...lines, ...more.map((text) => `${text}; ${EXPLAIN}`)]);
}

/** The command that lists the rest. */
const EXPLAIN = "nft-proxy explain NAMESPACE/NAME lists all of a Service";

function conflictLines({ frontend, winner, losers }: Conflict): string[] {
  const place = frontendText(frontend);
  return losers.slice(0, MOST_LISTED).map(({ name }) => `${place}: ${winner.name} has it, ${name} does not`);
}

function listed(lines: readonly string[]): string[] {
  return [...lines.slice(0, MOST_LISTED), ...moreLines(lines.length - MOST_LISTED)];
}

function timeText(milliseconds: number): string {
  return `${new Date(milliseconds).toISOString().replace("T", " ").slice(0, 19)} UTC`;
}

/** Height of the tallest bar. */
const HEIGHT = 24;

/**
 * Makes a bar chart as inline SVG without script or style. Each bar is one unit wide.
 * @param values not negative
 * @param label the text for readers who cannot see it
 */
export function sparklineHtml(values: readonly number[], label: string): Html {
  const most = Math.max(...values, 0);
  const bars = values.flatMap((value, x) => (value === 0 ? [] : [barHtml(x, (value / most) * HEIGHT)]));
  return html`<svg class="spark" viewBox="0 0 ${values.length} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="${label}">${bars}</svg>`;
}

/** The minimum height keeps a small value visible next to a large one. */
function barHtml(x: number, height: number): Html {
  const shown = Math.max(1, Math.round(height * 10) / 10);
  return html`<rect x="${x}" y="${HEIGHT - shown}" width="0.8" height="${shown}"/>`;
}
