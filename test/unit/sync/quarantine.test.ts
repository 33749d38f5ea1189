import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Family } from "../../../src/base/family.ts";
import { parseId } from "../../../src/ruleset/list-ids.ts";
import { bisect, findRefused, refusedFamily } from "../../../src/sync/quarantine.ts";
import { renderAll, service, slice, testNodeContext } from "../../support/build.ts";

describe("bisect", () => {
  test("finds exactly the refused candidates, in about 2 log2 n attempts for each", async () => {
    const list = fc.integer({ min: 0, max: 300 });
    await fc.assert(
      fc.asyncProperty(list, fc.array(fc.nat(299), { maxLength: 5 }), async (count, picked) => {
        const candidates = Array.from({ length: count }, (_, index) => index);
        const bad = new Set(picked.filter((index) => index < count));
        let attempts = 0;
        let tried = 0;
        const refused = await bisect(candidates, async (selection) => {
          attempts++;
          tried += selection.length;
          return !selection.some((one) => bad.has(one));
        });
        expect(new Set(refused)).toEqual(bad);
        expect(tried).toBeLessThanOrEqual((3 + 2 * bad.size) * count);
        expect(attempts).toBeLessThanOrEqual(2 + bad.size * 2 * Math.ceil(Math.log2(count + 1)));
      }),
    );
  });

  test("finds one of two that are refused only together", async () => {
    const refused = await bisect(["a", "b", "c", "d"], async (selection) => {
      return !(selection.includes("a") && selection.includes("d"));
    });
    expect(refused).toEqual(["d"]);
  });

  test("throws the error of an attempt", async () => {
    await expect(bisect([1], () => Promise.reject(new Error("nft is gone")))).rejects.toThrow("nft is gone");
  });
});

describe("findRefused", () => {
  test("tries a service port beside as many that are to lose their sticky ids as have one", async () => {
    const NAMES = ["a-good", "bad", "c", "d"];
    const rulesOf = (sticky: readonly string[], endpoint: string) => {
      const { families } = renderAll({
        services: NAMES.map((name, index) => {
          const affinitySeconds = sticky.includes(name) ? 60 : 0;
          return service({ name, clusterIPs: [`10.96.9.${index}`], affinitySeconds });
        }),
        slices: NAMES.map((name) => slice({ service: name, endpoints: [endpoint] })),
      }).state;
      return new Map([...(families.ip?.allServicePortRules() ?? [])].map((rules) => [rules.port.key, rules]));
    };
    const before = rulesOf(["c", "d"], "10.244.1.1");
    const after = rulesOf(["bad"], "10.244.1.2");
    const served: number[] = [];
    const refused = await findRefused({
      nodeContext: testNodeContext({ maxStickyPorts: 2 }),
      accepted: [],
      suspects: [...before].map(([key, rules]) => ({ key, before: rules, after: after.get(key) })),
      accepts: async ({ ip }) => {
        served.push(ip?.sets.get("lists")?.elements.size ?? 0);
        const id = parseId(Number(ip?.sets.get("lists")?.elements.get("10.96.9.1 . tcp . 80")));
        return id?.isSticky !== true;
      },
    });
    expect(refused.map(({ key }) => key)).toEqual(["ip default/bad/tcp"]);
    expect(Math.min(...served)).toBe(3);
  });
});

describe("refusedFamily", () => {
  const { ruleset } = renderAll({}).state;

  /** An nft that gives these answers, one after another. */
  const answering = (...answers: readonly boolean[]) => {
    const left = [...answers];
    return async () => left.shift() ?? true;
  };

  test.each<[string, readonly boolean[], Family | undefined]>([
    ["the one that is refused each time", [true, false, false], "ip6"],
    ["the other one", [false, true, false], "ip"],
    ["none when both are refused", [false, false], undefined],
    ["none when both are accepted", [true, true], undefined],
    ["none when what had everything refused ended meanwhile", [false, true, true], undefined],
  ])("gives %s", async (_, answers, family) => {
    expect(await refusedFamily(ruleset, answering(...answers))).toBe(family);
  });

  test("gives none when there is only one", async () => {
    expect(
      await refusedFamily({ ...(ruleset.ip && { ip: ruleset.ip }) }, answering(false, false)),
    ).toBeUndefined();
  });
});
