import { targetText } from "../../nft/elements.ts";
import { durationText } from "../../nft/text/rule-text.ts";
import type { ExplainInput } from "./explain-input.ts";
import type { Note } from "./explanation.ts";
import type { Match } from "./match.ts";
import { portText } from "./words.ts";

/** More of these are counted, not listed. */
const MOST = 5;

/** The endpoints that left the Service and whose clients are reset, those that left last first. */
export function vanishedNotes({ port }: Match, { vanished }: Pick<ExplainInput, "vanished">): Note[] {
  if (vanished === undefined) return [];
  const own = vanished.endpoints.filter(
    ({ family, services }) => family === port.family && services.includes(port.service.name),
  );
  const notes = own.toReversed().map(({ target, leftAt }) => {
    const since = durationText(Math.max(Math.floor((vanished.now - leftAt) / 1000), 0));
    return `the endpoint ${targetText(target)} left ${portText(port)} ${since} ago; clients that are still connected to it are reset`;
  });
  const more = notes.length > MOST ? [`and ${notes.length - MOST} more`] : [];
  return [...notes.slice(0, MOST), ...more].map((message) => ({ topic: "reset", message }));
}
