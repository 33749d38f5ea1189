import { describe, expect, test } from "vitest";
import { explanationOf, type Failure, type Harm } from "../../soak/attribution.ts";
import { type ConnectionKind, TARGETS, type Target } from "../../soak/targets.ts";

function targetOf(kind: ConnectionKind, family: "ip" | "ip6" = "ip"): Target {
  const target = TARGETS.find((one) => one.kind === kind && one.family === family);
  if (target === undefined) throw new Error(`no target for ${kind}`);
  return target;
}

function failure(from: number, until: number, target = targetOf("cluster-ip")): Failure {
  return { target, client: "pod2", from, until, error: "timeout" };
}

/** IPv4 without rules from 10 s to 12 s. */
const HARM: Harm = { fault: "a table deleted", from: 10_000, until: 12_000, families: ["ip"] };

describe("a failed connection is explained by a fault", () => {
  test.each([
    ["that began and ended around it", failure(10_500, 11_000)],
    ["that began while it waited", failure(9000, 10_500)],
    ["that was repaired while it waited", failure(11_900, 14_950)],
  ])("%s", (_, one) => {
    expect(explanationOf(one, [HARM])).toBe(HARM);
  });

  test("of its own Service only", () => {
    const harm = { ...HARM, service: targetOf("udp").name };
    expect(explanationOf(failure(10_500, 11_000, targetOf("udp")), [harm])).toBe(harm);
    expect(explanationOf(failure(10_500, 11_000), [harm])).toBeUndefined();
  });

  test("of its own family only", () => {
    expect(explanationOf(failure(10_500, 11_000, targetOf("cluster-ip", "ip6")), [HARM])).toBeUndefined();
  });
});

describe("a failed connection is unexplained", () => {
  test.each([
    ["when it ended before the fault", failure(9000, 9900)],
    ["when it was made after the repair", failure(12_100, 12_200)],
    ["when it failed long after the repair", failure(11_900, 16_500)],
  ])("%s", (_, one) => {
    expect(explanationOf(one, [HARM])).toBeUndefined();
  });

  test("when a long-lived connection is silent for more than 15 s after the repair", () => {
    expect(explanationOf(failure(11_900, 28_000, targetOf("held")), [HARM])).toBe(HARM);
    expect(explanationOf(failure(11_900, 29_500, targetOf("held")), [HARM])).toBeUndefined();
  });
});
