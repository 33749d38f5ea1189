import { durationText } from "../../../base/duration.ts";
import type { Family } from "../../../base/family.ts";
import { listText } from "../../../base/text.ts";
import { familyOf } from "../../../model/ip.ts";
import { splitParts, targetText } from "../../../nft/elements.ts";
import { VANISHED } from "../../../ruleset/sets.ts";
import type { ExplainInput, KnownVanished, LiveRules } from "../explain-input.ts";
import type { Connection, Note } from "../explanation.ts";
import type { Match } from "../match.ts";
import { portText } from "../words.ts";

/** More of these are counted, not listed. */
const MOST = 5;

/** The endpoints that left the Service and whose clients are reset, as the daemon or else the kernel knows them. */
export function vanishedNotes(connection: Connection, match: Match | undefined, input: ExplainInput): Note[] {
  const { vanished, live, objectsKnown } = input;
  if (vanished !== undefined) return match === undefined ? [] : daemonNotes(match, vanished);
  if (live === undefined || connection.protocol !== "tcp" || (match === undefined && objectsKnown)) return [];
  return kernelNotes(familyOf(connection.to), match, live);
}

/** The endpoints that left last first. */
function daemonNotes({ port }: Match, { endpoints, now }: KnownVanished): Note[] {
  const own = endpoints.filter(
    ({ family, services }) => family === port.family && services.includes(port.service.name),
  );
  const notes = own.toReversed().map(({ target, leftAt }) => {
    const since = durationText(Math.max(Math.floor((now - leftAt) / 1000), 0));
    return `the endpoint ${targetText(target)} left ${portText(port)} ${since} ago; clients that are still connected to it are reset`;
  });
  const more = notes.length > MOST ? [`and ${notes.length - MOST} more`] : [];
  return [...notes.slice(0, MOST), ...more].map((message) => ({ topic: "reset", message }));
}

/** The kernel has endpoints without their Services: those that have a port of the Service's endpoints may have been its. */
function kernelNotes(family: Family, match: Match | undefined, { ruleset }: LiveRules): Note[] {
  const ports = new Set(match?.view.endpoints.map(({ endpoint }) => String(endpoint.port)));
  const targets = [...(ruleset[family]?.sets.get(VANISHED)?.elements.keys() ?? [])].filter((target) => {
    return ports.size === 0 || ports.has(splitParts(target)[1] ?? "");
  });
  if (targets.length === 0) return [];
  const names = listText(targets.map(targetText), MOST);
  return [
    {
      topic: "reset",
      message: `clients that are still connected to endpoints that left every EndpointSlice are reset: ${names}; of which Services these were is known to the daemon alone`,
    },
  ];
}
