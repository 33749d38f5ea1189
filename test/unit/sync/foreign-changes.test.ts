import { describe, expect, test } from "vitest";
import { diffRuleset } from "../../../src/nft/delta.ts";
import { committedChanges } from "../../../src/sync/foreign-changes.ts";
import { everyRule } from "../../support/every-rule.ts";

const desired = everyRule();

/** The differences in words: `- key` is to be deleted, `+ key => value` to be added. */
function found(...lines: readonly string[]): string[] {
  return committedChanges(lines, desired).deltas.flatMap(({ family, elements }) =>
    elements.flatMap(({ spec, deleted, added }) => [
      ...deleted.map((key) => `- ${family} ${spec.name} ${key}`),
      ...added.map(({ key, value }) => `+ ${family} ${spec.name} ${key} => ${value}`),
    ]),
  );
}

const FRONTEND = "10.96.1.1 . tcp . 80";
const LIST = desired.ip?.sets.get("lists")?.elements.get(FRONTEND);

describe("committedChanges", () => {
  test("finds elements that were deleted, added and changed, in the words of nft 1.1.3", () => {
    expect(found(`delete element ip nft-proxy lists { ${FRONTEND} counter packets 7 bytes 420 : 8000:4 }`)).toEqual([
      `+ ip lists ${FRONTEND} => ${LIST}`,
    ]);
    expect(found("add element ip6 nft-proxy cluster-ips { fd00::68 }")).toEqual(["- ip6 cluster-ips fd00::68"]);
    expect(
      found(
        "delete element ip nft-proxy endpoints { 8000:4 . 0 : 10.244.1.11 . 8080 }",
        "add element ip nft-proxy endpoints { 8000:4 . 0 : 192.0.2.7 . 8080 }",
      ),
    ).toEqual(["- ip endpoints 2147483652 . 0", "+ ip endpoints 2147483652 . 0 => 10.244.1.11 . 8080"]);
    expect(
      found(
        "delete element ip nft-proxy range-lists { 10.96.1.1 . tcp . 1024-2047 : 8000:4 }",
        "delete element ip nft-proxy range-lists { 10.96.1.1 . tcp . 8080 counter packets 7 bytes 420 : 8000:4 }",
        "add element ip nft-proxy range-lists { 10.96.1.1 . tcp . 8000-8099 : 8000:4 }",
      ),
    ).toEqual([
      "- ip range-lists 10.96.1.1 . tcp . 8000-8099",
      `+ ip range-lists 10.96.1.1 . tcp . 1024-2047 => ${LIST}`,
      `+ ip range-lists 10.96.1.1 . tcp . 8080-8080 => ${LIST}`,
    ]);
    expect(found("add element ip nft-proxy balancers { 8000:4 : goto trap }")).toEqual([
      "- ip balancers 2147483652",
      "+ ip balancers 2147483652 => goto balance-5",
    ]);
  });

  test("finds nothing where the last commit left an element as it should be, and in what packets fill", () => {
    expect(
      found(
        `delete element ip nft-proxy lists { ${FRONTEND} : 8000:4 }`,
        `add element ip nft-proxy lists { ${FRONTEND} counter packets 0 bytes 0 : 8000:4 }`,
        "add element ip nft-proxy vanished { 10.244.2.13 . 8080 expires 15m59s988ms }",
        "add element ip nft-proxy refused { 10.0.0.1 . 10.96.1.1 . tcp . 80 expires 59m : what it may be }",
      ),
    ).toEqual([]);
  });

  test("tells of chains, rules and sets, and refuses what it does not understand", () => {
    const areDeclarations = (line: string) => committedChanges([line], desired).areDeclarations;
    expect(areDeclarations("delete rule ip nft-proxy services handle 7")).toBe(true);
    expect(areDeclarations("add element ip nft-proxy intruders { 192.0.2.1 }")).toBe(true);
    expect(areDeclarations("add element ip nft-proxy cluster-ips { 192.0.2.1 }")).toBe(false);
    for (const text of ["192.0.2.1-192.0.2.9", '192.0.2.1 comment "a : b"', "192.0.2.1 : drop", "a . b"]) {
      const line = `add element ip nft-proxy no-endpoint-services { ${text} }`;
      expect(() => committedChanges([line], desired), text).toThrow("cannot understand element");
    }
    const [ranges = ""] = [...(desired.ip?.sets.keys() ?? [])].filter((name) => name.startsWith("source-ranges-"));
    expect(() => committedChanges([`add element ip nft-proxy ${ranges} { 10.0.0.0/8 }`], desired)).toThrow();
  });

  test("finds what makes the tables right again", () => {
    const { ip } = everyRule();
    if (ip === undefined) throw new Error("no table");
    const [name, key] = ["cluster-ips", "10.96.1.1"];
    const { spec, elements } = ip.sets.get(name) ?? { spec: undefined, elements: new Map<string, string>() };
    if (spec === undefined) throw new Error("no set");
    const fewer = new Map([...elements].filter(([one]) => one !== key));
    const kernel = { ...desired, ip: { ...ip, sets: new Map([...ip.sets, [name, { spec, elements: fewer }]]) } };
    expect(committedChanges(["delete element ip nft-proxy cluster-ips { 10.96.1.1 }"], desired).deltas).toEqual(
      diffRuleset(kernel, desired),
    );
  });
});
