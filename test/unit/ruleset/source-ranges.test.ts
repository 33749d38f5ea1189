import { describe, expect, test } from "vitest";
import {
  addressNumber,
  addressText,
  addressWidth,
  parseInterval,
  prefixInterval,
} from "../../../src/base/address-interval.ts";
import type { Family } from "../../../src/base/family.ts";
import { RANGES } from "../../../src/features/port-ranges/rules.ts";
import { ruleText } from "../../../src/nft/text/rule-text.ts";
import { type FrontendKind, PORTS } from "../../../src/ruleset/frontend-kinds.ts";
import { parseId } from "../../../src/ruleset/list-ids.ts";
import type { FamilyContext } from "../../../src/ruleset/node-context.ts";
import {
  ALLOWS_ALL,
  allowedChain,
  FIRST_SOURCE_RANGE_LIST,
  isListNumber,
  listIdentity,
  MOST_SOURCE_RANGE_LISTS,
  mostRangeElements,
  sourceRangeKey,
  sourceRanges,
  sourceRangesAllowed,
  sourceRangesCheck,
  toSourceRangesCheck,
} from "../../../src/ruleset/source-ranges.ts";
import {
  type ContextOptions,
  familyContext,
  port,
  type ServiceOptions,
  servicePort,
} from "../../support/build.ts";

const IP = "203.0.113.10";
const base: ServiceOptions = { loadBalancerIPs: [IP], ports: [port(80, { name: "http" })] };

const guardOf = (options: ServiceOptions, context: ContextOptions = {}) =>
  sourceRanges(servicePort({ ...base, ...options }), familyContext("ip", context));

/** The sources that may come, or undefined where all may. */
const allowed = (options: ServiceOptions, context: ContextOptions = {}) =>
  guardOf(options, context)?.prefixes;

describe("sourceRanges", () => {
  test("are the allowed prefixes, and an id that identifies them", () => {
    const guard = guardOf({ sourceRanges: ["198.51.100.0/24", "198.51.0.0/24"] });
    expect(guard).toEqual({
      id: expect.stringMatching(/^[\da-f]{20}$/),
      prefixes: ["198.51.0.0/24", "198.51.100.0/24"],
    });
    expect(guard?.id).toBe(listIdentity(["198.51.100.0/24", "198.51.0.0/24"]));
  });

  test("are the same for all Services with the same ranges, in whatever form", () => {
    const one = guardOf({ sourceRanges: ["10.0.0.0/9", "10.128.0.0/9", "198.51.100.7/32"] });
    const other = guardOf({
      name: "other",
      loadBalancerIPs: ["203.0.113.99"],
      sourceRanges: ["198.51.100.7/32", "10.0.0.0/8"],
    });
    expect(other).toEqual(one);
    expect(guardOf({ sourceRanges: ["10.0.0.0/8"] })?.id).not.toBe(one?.id);
  });

  test("that overlap or touch are joined, in any order, and divided into prefixes again", () => {
    const ranges = [
      "10.0.0.0/9",
      "10.1.0.0/16",
      "10.128.0.0/9",
      "198.51.100.7/32",
      "192.0.0.1/32",
      "192.0.0.2/31",
    ];
    const joined = ["10.0.0.0/8", "192.0.0.1/32", "192.0.0.2/32", "192.0.0.3/32", "198.51.100.7/32"];
    expect(allowed({ sourceRanges: ranges })).toEqual(joined);
    expect(allowed({ sourceRanges: ranges.toReversed() })).toEqual(joined);
  });

  test("let the load balancer's address pass where the node's may, for the node uses it as its source", () => {
    expect(allowed({ sourceRanges: ["192.0.2.0/24"] })).toEqual(["192.0.2.0/24", `${IP}/32`]);
    expect(allowed({ sourceRanges: ["192.0.2.0/24"] }, { nodeAddress: "" })).toEqual(["192.0.2.0/24"]);
    expect(allowed({ sourceRanges: ["198.51.100.0/24"] })).toEqual(["198.51.100.0/24"]);
  });

  test("are computed again for a changed Service only if the ranges or the addresses changed", () => {
    const context = familyContext("ip");
    const before = servicePort({ ...base, sourceRanges: ["192.0.2.0/24"] });
    const known = sourceRanges(before, context);
    const withChanges = (options: ServiceOptions) =>
      sourceRanges(
        servicePort({ ...base, sourceRanges: ["192.0.2.0/24"], ...options }),
        context,
        before.service,
      );
    expect(withChanges({ affinitySeconds: 60 })).toBe(known);
    expect(withChanges({ sourceRanges: ["192.0.3.0/24"] })?.prefixes).toEqual(["192.0.3.0/24"]);
    expect(withChanges({ sourceRanges: ["192.0.2.0/24", "192.0.4.0/24"] })?.prefixes).toEqual([
      "192.0.2.0/24",
      "192.0.4.0/24",
      `${IP}/32`,
    ]);
    expect(withChanges({ loadBalancerIPs: ["203.0.113.11"] })?.prefixes).toContain("203.0.113.11/32");
  });

  test.each([
    ["no ranges", {}],
    ["ranges of the other family only", { sourceRanges: ["fd00::/8"] }],
    [
      "no load balancer's address of this family",
      { sourceRanges: ["10.0.0.0/8"], loadBalancerIPs: ["fd00::1"] },
    ],
    [
      "external IPs, which are not guarded",
      { sourceRanges: ["10.0.0.0/8"], loadBalancerIPs: [], externalIPs: [IP] },
    ],
    ["ranges that allow everything", { sourceRanges: ["10.0.0.0/8", "0.0.0.0/0"] }],
    ["ranges that allow everything in two halves", { sourceRanges: ["128.0.0.0/1", "0.0.0.0/1"] }],
  ])("guard nothing for %s", (_, options) => {
    expect(guardOf(options)).toBeUndefined();
  });

  test("have an id that depends on neither the order of prefixes nor anything else", () => {
    const id = listIdentity(["10.0.0.0/8", "192.0.2.1"]);
    expect(listIdentity(["192.0.2.1", "10.0.0.0/8"])).toBe(id);
    expect(listIdentity(["192.0.2.2", "10.0.0.0/8"])).not.toBe(id);
  });
});

/** The source ranges of a Service in one family. */
function rangesIn(family: Family, ...cidrs: readonly string[]) {
  const [clusterIPs, loadBalancerIPs] =
    family === "ip" ? [["10.96.0.10"], [IP]] : [["fd00:96::1"], ["fd00:1b::1"]];
  const given = servicePort({ clusterIPs, loadBalancerIPs, sourceRanges: cidrs }, family);
  return sourceRanges(given, familyContext(family, { nodeAddress: "" }))?.prefixes ?? [];
}

describe("a source range", () => {
  test.each<[Family, string, readonly string[]]>([
    ["ip", "198.51.100.0/24", ["198.51.100.0/24"]],
    ["ip", "198.51.100.0/23", ["198.51.100.0/24", "198.51.101.0/24"]],
    ["ip", "198.51.100.2/31", ["198.51.100.2/32", "198.51.100.3/32"]],
    ["ip", "128.0.0.0/1", ["128.0.0.0/2", "192.0.0.0/2"]],
    ["ip6", "fd00:c1::/62", ["fd00:c1::/64", "fd00:c1:0:1::/64", "fd00:c1:0:2::/64", "fd00:c1:0:3::/64"]],
    ["ip6", "fd00:c1::4/127", ["fd00:c1::4/128", "fd00:c1::5/128"]],
  ])(
    "is divided into prefixes of the lengths that rules look up: in %s %s into %j",
    (family, cidr, expected) => {
      expect(rangesIn(family, cidr)).toEqual(expected);
    },
  );

  test.each([
    ["ip", "198.51.100.201", 2],
    ["ip6", "fd00:c1:2:3:4:5:6:7", 8],
  ] as const)(
    "of any length is divided into prefixes that are exactly it, and counted (%s)",
    (family, address, most) => {
      for (let length = 1; length <= addressWidth(family); length++) {
        const whole = prefixInterval(family, addressNumber(family, address), length);
        const cidr = `${addressText(family, whole.first)}/${length}`;
        const prefixes = rangesIn(family, cidr);
        let next = whole.first;
        for (const { first, last } of prefixes.map((prefix) => parseInterval(family, prefix))) {
          expect(first).toBe(next);
          next = last + 1n;
        }
        expect(next).toBe(whole.last + 1n);
        expect(prefixes.length).toBeLessThanOrEqual(most);
        expect(mostRangeElements[family]([cidr])).toBe(prefixes.length);
      }
    },
  );

  test("counts as many elements as with all other ranges, at the least", () => {
    const cidrs = ["10.0.0.0/9", "10.128.0.0/9", "192.0.0.1/32", "192.0.0.2/31", "10.0.0.0/8"];
    expect(mostRangeElements.ip(cidrs)).toBe(2 + 2 + 1 + 2 + 1);
    expect(rangesIn("ip", ...cidrs)).toHaveLength(4);
    expect(mostRangeElements.ip([])).toBe(0);
  });

  test("is an element of address, number of the list, and length", () => {
    expect(sourceRangeKey(FIRST_SOURCE_RANGE_LIST + 1, "10.0.0.0/8")).toBe("10.0.0.0 . 2164260865 . 8");
    expect(sourceRangeKey(FIRST_SOURCE_RANGE_LIST + 2, "fd00::1/128")).toBe("fd00::1 . 2164260866 . 128");
  });
});

describe("the number of a list of source ranges", () => {
  const last = FIRST_SOURCE_RANGE_LIST + MOST_SOURCE_RANGE_LISTS;

  test.each([
    ["too small", FIRST_SOURCE_RANGE_LIST, false],
    ["the first", FIRST_SOURCE_RANGE_LIST + 1, true],
    ["the last", last, true],
    ["too large", last + 1, false],
  ])("is told from other values: %s", (_, value, expected) => {
    expect(isListNumber(value)).toBe(expected);
  });

  test("and the value that allows all sources are no ids of lists of endpoints", () => {
    const values = [ALLOWS_ALL, FIRST_SOURCE_RANGE_LIST, FIRST_SOURCE_RANGE_LIST + 1, last];
    expect(values.map(parseId)).toEqual([undefined, undefined, undefined, undefined]);
    expect(isListNumber(ALLOWS_ALL)).toBe(false);
  });
});

describe("the check of source ranges", () => {
  const FRONTEND = "ip daddr . meta l4proto . th dport";

  const chainsOf = (context: FamilyContext, kind: FrontendKind) => [
    sourceRangesCheck(context, kind),
    sourceRangesAllowed(context, kind),
  ];

  /** The rules of a chain as nft prints them. */
  function rulesOf(family: Family, options: ContextOptions = {}, kind: FrontendKind = PORTS): string[] {
    const chains = chainsOf(familyContext(family, options), kind);
    return chains.find(({ name }) => name === kind.chains.sourceRangesCheck)?.rules.map(ruleText) ?? [];
  }

  test.each([
    [PORTS, "source-ranges", "source-range-lists", "lists"],
    [RANGES, "range-source-ranges", "range-source-range-lists", "range-lists"],
  ] as const)(
    "($kind) looks for the source, gives allowed ones their way back, and drops the others",
    (kind, name, numbers, lists) => {
      const context = familyContext("ip", { refusalLogSize: 0 });
      expect(ruleText(toSourceRangesCheck(context, kind))).toBe(
        `meta priority set ${FRONTEND} map @${numbers} jump ${name}-check`,
      );
      const chains = chainsOf(context, kind);
      expect(chains.map((chain) => chain.name).sort()).toEqual([`${name}-allowed`, `${name}-check`]);
      const allowing = chains.find((chain) => chain.name === `${name}-allowed`);
      expect(allowing?.rules.map(ruleText)).toEqual([`meta priority set ${FRONTEND} map @${lists}`]);
      const texts = rulesOf("ip", { refusalLogSize: 0 }, kind);
      expect(texts.at(-1)).toBe("drop");
      for (const text of texts.slice(0, -1)) expect(text).toMatch(` @source-ranges goto ${name}-allowed`);
      expect(texts[0]).toBe(
        `ip saddr . meta priority . numgen random mod 1 offset 32 @source-ranges goto ${name}-allowed`,
      );
    },
  );

  test("records exactly the packets that it drops", () => {
    const rules = rulesOf("ip");
    expect(rules.findIndex((text) => text.includes("@refused"))).toBe(rules.length - 2);
    expect(rules.at(-2)).toMatch(/^update @refused /);
    expect(rules.at(-1)).toBe("drop");
  });

  test.each(["ip", "ip6"] as const)(
    "(%s) looks up each length once, with the mask of the length",
    (family) => {
      const lengths = rulesOf(family, { refusalLogSize: 0 })
        .slice(0, -1)
        .map((text) => {
          const [, mask, length = ""] = /saddr(?: & ([^ ]+))? .* offset (\d+) @/.exec(text) ?? [];
          const { first: zero, last } = prefixInterval(family, 0n, Number(length));
          const all = (1n << BigInt(addressWidth(family))) - 1n;
          expect(mask ?? addressText(family, all)).toBe(addressText(family, all - (last - zero)));
          return Number(length);
        });
      expect(new Set(lengths).size).toBe(lengths.length);
      expect(lengths[0]).toBe(addressWidth(family));
    },
  );

  test.each([
    ["ip", ["10.0.0.0/9", "192.0.2.6/31", "198.51.100.128/25", "203.0.113.7/32", "224.0.0.0/3"]],
    ["ip6", ["fd00::/9", "2001:db8::/33", "2001:db9:0:2::/63", "2001:dba::8/125", "2001:dbb::1/128"]],
  ] as const)(
    "(%s) allows the first and last address of each range, and not their neighbours",
    (family, cidrs) => {
      const lengths = rulesOf(family, { refusalLogSize: 0 }).flatMap((text) =>
        Array.from(text.matchAll(/offset (\d+) @source-ranges/g), ([, length]) => Number(length)),
      );
      const elements = new Set(rangesIn(family, ...cidrs).map((prefix) => sourceRangeKey(1, prefix)));
      const isAllowed = (address: bigint) =>
        lengths.some((length) => {
          const network = addressText(family, prefixInterval(family, address, length).first);
          return elements.has(sourceRangeKey(1, `${network}/${length}`));
        });
      for (const { first, last } of cidrs.map((cidr) => parseInterval(family, cidr))) {
        const around = [first - 1n, first, (first + last) / 2n, last, last + 1n];
        expect(around.map(isAllowed)).toEqual([false, true, true, true, false]);
      }
    },
  );

  test("before another chain lets only the allowed sources go there, and all for the number of everybody", () => {
    const chain = allowedChain("ip", "answer-ping-check", "answer-ping");
    const checks = rulesOf("ip", { refusalLogSize: 0 }).slice(0, -1);
    expect([chain.name, ...chain.rules.map(ruleText)]).toEqual([
      "answer-ping-check",
      "meta priority 8000:0 goto answer-ping",
      ...checks.map((text) => text.replace("source-ranges-allowed", "answer-ping")),
    ]);
  });
});
