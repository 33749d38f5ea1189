import { durationWords } from "../../base/duration.ts";
import { FAMILY_NAMES } from "../../base/family.ts";
import type { Fill } from "../../features/seam/daemon-part.ts";
import { RESOURCE_NAMES, type SourceState } from "../../kube/source.ts";
import type { DaemonStatus } from "./daemon-status.ts";
import { clipped, type Html, html, type Tone } from "./html.ts";

/** Maximum size of one reason or name. Bytes. */
const LONGEST_CELL = 500;

/** The followed resources of the API server. */
export function sourcesHtml({ sources, now }: DaemonStatus): Html {
  return html`<div class="table sources"><table><caption>Sources</caption><thead><tr><th>Resource<th>State<th class="number">Objects<th>Followed for<th>Last event<th>Last list<th class="number">Relists<th class="number">Errors</thead><tbody>
${RESOURCE_NAMES.map((name) => sourceRow(name, sources[name], now))}</tbody></table></div>
`;
}

function sourceRow(name: string, state: SourceState, now: number): Html {
  const errors = Object.entries(state.errors).filter(([, count]) => count > 0);
  const total = errors.reduce((sum, [, count]) => sum + count, 0);
  const kinds = errors.map(([kind, count]) => `${kind} ${count}`).join(", ");
  const [tone, message] = sourceWords(state);
  const { objects, followedSince, lastEventAt, lastSyncAt, relists } = state;
  const followed = followedSince === 0 ? "-" : durationWords(now - followedSince);
  const ago = (at: number) => (at === 0 ? "never" : `${durationWords(now - at)} ago`);
  return html`<tr><td>${name}<td><span class="${tone}">${clipped(message, LONGEST_CELL)}</span><td class="number" data-label="objects">${objects}<td data-label="followed for">${followed}<td data-label="last event">${ago(lastEventAt)}<td data-label="last list">${ago(lastSyncAt)}<td class="number" data-label="relists">${relists}<td class="number" data-label="errors">${total}${kinds === "" ? "" : ` (${kinds})`}
`;
}

function sourceWords({ failure, absent, synced }: SourceState): readonly [Tone, string] {
  if (failure !== "") return ["bad", failure];
  if (absent) return ["idle", "not served here"];
  return synced ? ["good", "following"] : ["idle", "first list under way"];
}

/**
 * Share of a limit from which it is marked: the daemon then deletes affinity entries, see affinity-poller.ts.
 */
const NEARLY_FULL = 0.9;

/** The usage of everything with a limit. */
export function limitsHtml(status: DaemonStatus): Html {
  return html`<div class="table"><table><caption>Limits</caption><thead><tr><th>What<th class="number">Used<th class="number">Limit<th class="number">Full</thead><tbody>
${[...elementFills(status), ...packetFills(status), ...connectionFills(status)].map(fillRow)}</tbody></table></div>
`;
}

function fillRow({ what, used, limit }: Fill): Html {
  const share = (used ?? 0) / limit;
  const tone: Tone = share > 1 ? "bad" : share >= NEARLY_FULL ? "idle" : "good";
  const full =
    used === undefined ? undefined : html`<span class="${tone}">${Math.round(share * 100)} %</span>`;
  return html`<tr><td>${clipped(what, LONGEST_CELL)}<td class="number">${used ?? "not read yet"}<td class="number">${limit}<td class="number">${full}
`;
}

/**
 * Elements as the budgets count them, including those of Services that are not served for lack of elements.
 */
function elementFills({ state, nodeContext: [context] }: DaemonStatus): Fill[] {
  if (context === undefined) return [];
  const { claimed, largest } = state.budgets.elements;
  const ofAll = { what: "Elements of all Services", used: claimed, limit: context.maxElements };
  if (largest === undefined) return [ofAll];
  const [namespace, used] = largest;
  const what = `Elements of namespace ${namespace}, the largest`;
  return [ofAll, { what, used, limit: context.maxNamespaceElements }];
}

/** The maps that packets fill. */
function packetFills(status: DaemonStatus): Fill[] {
  const { nodeContext, affinityEntries, countedClients, fills = [], dryRun } = status;
  if (dryRun) return [];
  return [
    ...nodeContext.map(({ family, affinityMapSize }) => ({
      what: `Clients with session affinity, ${FAMILY_NAMES[family]}`,
      used: affinityEntries[family],
      limit: affinityMapSize,
    })),
    ...countedClients.map(({ family, what, entries, size }) => ({
      what: `${what}, ${FAMILY_NAMES[family]}`,
      used: entries,
      limit: size,
    })),
    ...fills,
  ];
}

function connectionFills({ conntrack: { entries, capacity } }: DaemonStatus): Fill[] {
  if (capacity === undefined) return [];
  return [{ what: "Connections that the kernel tracks", used: entries, limit: capacity }];
}
