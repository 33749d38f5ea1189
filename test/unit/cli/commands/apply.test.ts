import { describe, expect, test } from "vitest";
import { applySummary } from "../../../../src/cli/commands/apply.ts";
import { diffRuleset } from "../../../../src/nft/delta.ts";
import type { FullSyncReport } from "../../../../src/sync/full-sync.ts";
import { renderAll, service, slice } from "../../../support/build.ts";

const objects = { services: [service()], slices: [slice({ endpoints: ["10.244.2.11"] })] };
const deltas = diffRuleset(renderAll({}).state.ruleset, renderAll(objects).state.ruleset);

function summary(report: Partial<FullSyncReport>): string {
  const counts = { serviceCount: 1, sliceCount: 2 };
  return applySummary(counts, { deltas: [], unreadable: undefined, applied: [], ...report });
}

describe("the summary of apply", () => {
  test("counts what changed, and adds up size and time of all transactions", () => {
    const applied = [
      { bytes: 1000, durationMs: 1.2 },
      { bytes: 540, durationMs: 2.4 },
    ];
    expect(summary({ deltas, applied })).toMatch(
      /^applied for 1 Service and 2 EndpointSlices: 1 chain, 0 sets, \d+ elements \(1\.54 kB in 3\.6 ms\)\n$/,
    );
  });

  test("reports that no change was needed if nothing was sent", () => {
    expect(summary({})).toBe("nothing to change for 1 Service and 2 EndpointSlices\n");
  });

  test("gives the reason for which tables were rebuilt", () => {
    expect(summary({ unreadable: "they are odd" })).toBe(
      "rebuilt for 1 Service and 2 EndpointSlices, because our tables could not be read: they are odd\n",
    );
  });
});
