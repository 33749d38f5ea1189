import { secondsBetween } from "../base/duration.ts";
import { counted, listText, listTextOf } from "../base/text.ts";
import type { Desired } from "../inspect/load/desired.ts";
import type { DesiredOrigin, MissingNode } from "../inspect/load/load-request.ts";
import { type Diagnostic, inputName } from "../kube/files/diagnostic.ts";
import type { Conflict } from "../ruleset/family-state.ts";
import { frontendText } from "../ruleset/keys.ts";
import type { DaemonState } from "../socket/daemon-protocol.ts";
import { quarantinedServices } from "../sync/quarantine-changes.ts";

/** Whether any diagnostic is an error. */
export function hasErrors(diagnostics: readonly Diagnostic[]): boolean {
  return diagnostics.some(({ severity }) => severity === "error");
}

/**
 * A diagnostic in one line: `error: town.yaml:12: Service shop/cart: spec.clusterIP must be ...
 * [invalid-address]`.
 */
export function diagnosticText(diagnostic: Diagnostic): string {
  const { severity, file, document, line, object } = diagnostic;
  const name = inputName(file);
  const place = `${name}${line === undefined ? "" : `:${line}`}${document === 1 ? "" : ` (document ${document})`}`;
  const subject = object === undefined ? "" : `${object}: `;
  return `${severity}: ${place}: ${subject}${messageText(diagnostic)}`;
}

/** The message of a diagnostic, with its field and its code. */
export function messageText({ path, reason, code }: Diagnostic): string {
  return `${path} ${reason} [${code}]`.trim();
}

/** Maximum number of conflicts that are listed; the others are counted. */
const MOST_CONFLICTS = 20;

/**
 * A warning for each conflict over a frontend, up to {@link MOST_CONFLICTS}, and one with the number of the
 * others.
 */
export function conflictNotices(conflicts: readonly Conflict[]): string[] {
  const more = conflicts.length - MOST_CONFLICTS;
  const hint = "nft-proxy explain --all --problems lists them";
  return [
    ...conflicts.slice(0, MOST_CONFLICTS).map(({ frontend, winner, losers }) => {
      const others = listTextOf(losers, ({ name }) => name);
      return `warning: ${frontendText(frontend)} belongs to ${winner.name}, the oldest that uses it; not to ${others}`;
    }),
    ...(more > 0
      ? [`warning: several Services want the same address and port in ${counted(more, "more case")}: ${hint}`]
      : []),
  ];
}

/** Maximum number of Services that are named; the others are counted. */
const MOST_SERVICES = 20;

/** An error for each quarantined Service, and a warning for each that is served without a feature. */
export function budgetNotices({ excess, state }: Pick<Desired, "excess" | "state">): string[] {
  const quarantined = quarantinedServices(excess).map(
    ({ service, reason }) => `error: Service ${service} is quarantined and gets no rules: ${reason}`,
  );
  const reduced = state.budgets.features.map(({ name, text }) =>
    quarantinedServices(state.budgets.without(name)).map(
      ({ service, reason }) => `warning: Service ${service} is served without ${text}: ${reason}`,
    ),
  );
  return [quarantined, ...reduced].flatMap((notices) => [
    ...notices.slice(0, MOST_SERVICES),
    ...(notices.length > MOST_SERVICES ? [`and ${notices.length - MOST_SERVICES} more Services`] : []),
  ]);
}

/** Says that the node is not among the objects, and names the nodes that are. */
export function missingNodeText({ name, candidates }: MissingNode): string {
  return `node ${name} is not among the objects; there ${candidates.length === 1 ? "is" : "are"} ${listText(candidates)}`;
}

/** The notices about loaded objects, from which a desired state is computed. */
export function loadedNotices(
  loaded: Pick<Desired, "missingNode" | "notices" | "diagnostics"> & Partial<Pick<Desired, "origin">>,
): string[] {
  const { origin, missingNode, notices, diagnostics } = loaded;
  const problem = origin?.daemon?.sync.problem;
  const outOfDate = `warning: the daemon's last sync failed, so the rules are out of date: ${problem}`;
  return [
    ...(problem === undefined ? [] : [outOfDate]),
    ...missingNodeNotices(missingNode),
    ...notices,
    ...diagnostics.map(diagnosticText),
  ];
}

/** Warns if there are Nodes, but not this one: its zone, addresses and pod CIDRs are unknown. */
function missingNodeNotices(missing: MissingNode | undefined): string[] {
  if (missing === undefined || missing.candidates.length === 0) return [];
  const text = `${missingNodeText(missing)} (--hostname-override chooses one)`;
  return [`warning: ${text}: its zone, addresses and pod CIDRs are unknown`];
}

/**
 * The source of a desired state: `daemon on node-1, verified 12 s ago`; `objects from files, options given
 * here`.
 */
export function originText({ objects, server, daemon }: DesiredOrigin): string {
  const given = objects === "files" ? "objects from files" : `objects of ${server ?? "the cluster"}`;
  if (daemon === undefined) return `${given}, options given here`;
  const source = daemonText(daemon);
  return objects === "daemon" ? source : `${given}, options of the ${source}`;
}

function daemonText({ nodeName, now, sync: { verifiedAt, pendingSince } }: DaemonState): string {
  const verified =
    verifiedAt === undefined ? "not verified yet" : `verified ${secondsBetween(verifiedAt, now)} s ago`;
  const pending =
    pendingSince === undefined ? "" : `, changes pending for ${secondsBetween(pendingSince, now)} s`;
  return `daemon on ${nodeName}, ${verified}${pending}`;
}

/**
 * A workflow command of GitHub, which becomes an annotation: `::error file=a.yaml,line=3,title=Service
 * a/b::spec.ports ...`. Source: GitHub's "Workflow commands"; how values are escaped: actions/toolkit,
 * packages/core/src/command.ts.
 */
export function githubCommand(
  severity: "error" | "warning",
  message: string,
  properties: Readonly<Record<string, string | number | undefined>>,
): string {
  const texts = Object.entries(properties).flatMap(([name, value]) =>
    value === undefined ? [] : `${name}=${escapedProperty(String(value))}`,
  );
  return `::${severity}${texts.length === 0 ? "" : ` ${texts.join(",")}`}::${escaped(message)}`;
}

function escaped(text: string): string {
  return text.replaceAll("%", "%25").replaceAll("\r", "%0D").replaceAll("\n", "%0A");
}

function escapedProperty(text: string): string {
  return escaped(text).replaceAll(":", "%3A").replaceAll(",", "%2C");
}
