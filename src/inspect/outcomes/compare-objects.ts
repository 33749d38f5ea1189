import { splitPath } from "../../base/schema-error.ts";
import type { FilesResult } from "../../kube/files/object-gatherer.ts";
import { hostOf } from "../explain/explain-input.ts";
import { type DesiredFromFiles, loadFromFiles } from "../load/desired.ts";
import type { LoadRequest } from "../load/load-request.ts";
import { compareOutcomes, type ObjectPlace, type OutcomeReport, ownerName } from "./compare-outcomes.ts";

/**
 * Compares the outcomes of connections under the rules for two sets of files. Services without a cluster IP
 * get placeholder addresses on both sides, which depend on their names alone.
 * @param paths the files and directories of the new objects; the request has the old ones
 * @throws AppError as {@link loadFromFiles} does
 */
export async function compareObjectOutcomes(
  request: LoadRequest,
  paths: readonly string[],
): Promise<OutcomeReport> {
  const read = { placeholders: true, thorough: true };
  const before = await loadFromFiles(request, read);
  const after = await loadFromFiles({ ...request, paths }, read);
  const comparison = compareOutcomes(
    sideOf(before),
    sideOf(after),
    before.nodeContext,
    before.cache.node.podCIDRs,
  );
  const places = new Map([...placesOf(before.files), ...placesOf(after.files)]);
  return {
    ...comparison,
    differences: comparison.differences.map((difference) => {
      const service =
        ownerName(after.state, difference.frontend) ?? ownerName(before.state, difference.frontend);
      const place = places.get(service?.split(":")[0] ?? "");
      return { ...difference, service, place };
    }),
    sides: ["old objects", "new objects"],
    diagnostics: [...before.diagnostics, ...after.diagnostics],
    notices: [...before.notices, ...after.notices],
  };
}

function sideOf({ state, nodeContext }: DesiredFromFiles) {
  return { tables: Object.values(state.ruleset), host: hostOf(nodeContext, []) };
}

function placesOf({ objects }: FilesResult): [string, ObjectPlace][] {
  return objects.services.map(({ value, origin, document }) => {
    return [value.name, { file: origin.file, line: document?.lineOf(splitPath(origin.path)) }];
  });
}
