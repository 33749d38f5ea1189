import { expect, test } from "vitest";
import { run, storyText } from "../../../../src/cli/commands/trace.ts";
import type { NamedStory } from "../../../../src/inspect/trace/named-story.ts";
import { quietReporter } from "../../../support/command.ts";

type Step = readonly [chain: string, rule: string, verdict: string];

/** The lines that a packet's way through one base chain of firewalld takes. */
function linesOf(steps: readonly Step[]): string[] {
  const rules = steps.map(([chain, rule, verdict]) => ({ chain, rule, verdict }));
  const story: NamedStory = {
    time: "2026-01-01T14:59:37.344Z",
    protocol: "tcp",
    flags: ["syn"],
    source: { address: "10.244.2.9", port: 45250, name: "shop/web-1" },
    destination: { address: "10.96.0.7", port: 80, name: "" },
    input: "pod3",
    stages: [{ family: "inet", table: "firewalld", chain: "filter", rules: rules as never, policy: "" }],
    end: { kind: "passed" } as never,
    message: "passed",
  };
  return storyText(story).trimEnd().split("\n").slice(1, -1);
}

const EMPTY_ZONE: readonly Step[] = [
  ["filter", "jump POLICIES", "jump POLICIES"],
  ["POLICIES", "jump public", "jump public"],
  ["public", "jump public_log", "jump public_log"],
  ["POLICIES", "return", "return"],
];

test("a packet's story sums up a chain that only leads to other chains as without effect", () => {
  expect(linesOf(EMPTY_ZONE)).toEqual(["  no effect in inet firewalld filter"]);
});

test("a packet's story tells the jumps that lead to a rule, and the rule's verdict once", () => {
  const rejected: Step = ["public", "reject with icmpx admin-prohibited", "drop"];
  expect(
    linesOf([...EMPTY_ZONE.slice(0, 3), ["filter", 'ct state { new } log prefix "x"', "continue"], rejected]),
  ).toEqual([
    "  inet firewalld filter",
    "    jump POLICIES",
    "    POLICIES: jump public",
    '    ct state { new } log prefix "x"',
    "    public: reject with icmpx admin-prohibited -> drop",
  ]);
  expect(linesOf([["filter", "ct status dnat accept", "accept"]])).toEqual([
    "  inet firewalld filter",
    "    ct status dnat accept",
  ]);
});

test.each([
  [{ duration: ["0s"], rate: ["0"] }, "--duration"],
  [{ duration: ["1s"], rate: ["0"] }, "--rate"],
])("the first invalid argument of %j is named", async (argv, flag) => {
  const message = expect.stringMatching(`^${flag} `);
  await expect(run(argv, quietReporter())).rejects.toMatchObject({ code: "BAD_ARGUMENT", message });
});
