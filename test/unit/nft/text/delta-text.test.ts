import { describe, expect, test } from "vitest";
import { diffRuleset } from "../../../../src/nft/delta.ts";
import { deltaText } from "../../../../src/nft/text/delta-text.ts";
import { renderAll, testNodeContext } from "../../../support/build.ts";

const ruleset = renderAll({}).state.ruleset;
const linesOf = (text: string) => text.split("\n");
const aboutTables = (text: string) => linesOf(text).filter((line) => /^(add|delete) table /.test(line));

describe("the text of a change", () => {
  test("of a missing table adds it", () => {
    expect(aboutTables(deltaText(diffRuleset({}, ruleset)))).toEqual([
      "add table ip nft-proxy",
      "add table ip6 nft-proxy",
    ]);
  });

  test("of a table with other declarations deletes it, whether it is there or not, and adds it", () => {
    const resized = renderAll({}, testNodeContext({ affinityMapSize: 7 })).state.ruleset;
    expect(aboutTables(deltaText(diffRuleset(ruleset, resized)))).toEqual(
      ["ip", "ip6"].flatMap((family) =>
        ["add", "delete", "add"].map((verb) => `${verb} table ${family} nft-proxy`),
      ),
    );
  });

  test("within a table leaves the table alone", () => {
    const masquerading = renderAll({}, testNodeContext({ masqueradeAll: true })).state.ruleset;
    const text = deltaText(diffRuleset(ruleset, masquerading));
    expect(text).toContain("add rule ip nft-proxy");
    expect(aboutTables(text)).toEqual([]);
  });
});
