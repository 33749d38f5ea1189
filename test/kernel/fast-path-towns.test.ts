import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { rebuildTransaction } from "../../src/nft/transaction.ts";
import { hasFastPath } from "../support/fast-path.ts";
import { createLab, type Lab } from "../support/lab/lab.ts";
import { lastingDifferences, loadScenario } from "../support/lab/scenario.ts";
import { townRuleset } from "../support/town-ruleset.ts";

describe.runIf(hasFastPath())("the recorded town's rules with a fast path from the first packet on", () => {
  let town: Lab;
  beforeAll(async () => {
    town = await createLab();
  });
  afterAll(() => town?.close());

  test.each(["town", "town-after"] as const)("treat every packet of %s as kube-proxy did", async (name) => {
    const settings = { fastPath: true, fastPathAfter: 1 };
    await town.loadTransaction(JSON.stringify(rebuildTransaction(townRuleset(name, { settings }))));
    const { stdout } = await town.exec(["ip", "-o", "link"]);
    const names = [...stdout.matchAll(/^\d+: ([\w.-]+)/gm)]
      .map(([, link = ""]) => link)
      .filter((link) => link !== "lo");
    for (const family of ["ip", "ip6"]) {
      const prio = family === "ip" ? -1 : 0;
      const added = `add flowtable ${family} nft-proxy fast-path { hook ingress priority ${prio}; devices = { ${names.join(", ")} }; }`;
      await town.mustRun("node", ["nft", added]);
    }
    expect(await lastingDifferences(await loadScenario(name), town)).toEqual([]);
  });
});
