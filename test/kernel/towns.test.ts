import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { rebuildTransaction } from "../../src/nft/transaction.ts";
import { createLab, type Lab } from "../support/lab/lab.ts";
import { lastingDifferences, loadScenario } from "../support/lab/scenario.ts";
import { townRuleset } from "../support/town-ruleset.ts";

describe.each(["town", "town-after"] as const)("the rules rendered for %s", (name) => {
  let lab: Lab;
  beforeAll(async () => {
    lab = await createLab();
  });
  afterAll(() => lab?.close());

  test("give every packet the outcome that kube-proxy gave it", async () => {
    const town = await loadScenario(name);
    await lab.loadTransaction(JSON.stringify(rebuildTransaction(townRuleset(name))));
    expect(await lastingDifferences(town, lab)).toEqual([]);
  });
});
