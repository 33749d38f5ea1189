import { familyOf } from "../../../model/ip.ts";
import type { ExplainInput } from "../explain-input.ts";
import type { Note } from "../explanation.ts";
import type { Match } from "../match.ts";

/**
 * Why the endpoints' hints are not followed: every ready endpoint must have hints, and one of them must be for this
 * node or zone (KEP-2433, KEP-3015). Empty without hints, and where they are followed.
 */
export function hintsNotes({ view, frontend }: Match, { nodeContext, cache }: ExplainInput): Note[] {
  if (frontend.policy === "local" || view.choice.topology !== "none" || view.choice.cluster.length === 0) return [];
  const ready = view.endpoints.map(({ endpoint }) => endpoint).filter(({ source }) => source.ready);
  const hints = ready.map(({ source }) => [...source.zoneHints, ...source.nodeHints]);
  if (hints.every(({ length }) => length === 0)) return [];
  const without = ready[hints.findIndex(({ length }) => length === 0)];
  const place = nodeContext.find(({ family }) => family === familyOf(ready[0]?.address ?? ""))?.place ?? cache.node;
  const here = place.zone === "" ? `${place.name}, whose zone is not known` : `${place.name} or ${place.zone}`;
  const reason =
    without === undefined ? `none is for ${here}` : `${without.address} has none, and one without is enough`;
  return [{ topic: "hints", message: `the endpoints have hints, which are not followed: ${reason}` }];
}
