import { expect, test } from "vitest";
import { untilHealthy } from "../../../../src/inspect/fleet/gather-fleet.ts";
import type { FleetNode, FleetState } from "../../../../src/inspect/fleet/node-status.ts";

/** Waits for a fleet of one node that has these states, one after the other; each pause takes a second. */
async function wait(
  answers: readonly (FleetState | "api-down")[],
): Promise<{ state?: string; asked: number }> {
  let now = 0;
  let asked = 0;
  const gather = async (): Promise<FleetNode[]> => {
    const state = answers[Math.min(asked++, answers.length - 1)] ?? "healthy";
    if (state === "api-down") throw new Error("the API server is down");
    return [{ node: "a", pod: "p", state }];
  };
  const pause = async () => {
    now += 1000;
  };
  const clock = { monotonic: () => now };
  const [node] = await untilHealthy(gather, 3000, pause, clock);
  return { ...(node === undefined ? {} : { state: node.state }), asked };
}

test("a fleet that is healthy is not waited for", async () => {
  expect(await wait(["healthy"])).toEqual({ state: "healthy", asked: 1 });
});

test("a fleet is waited for until it is healthy, or the time is over", async () => {
  expect(await wait(["no-pod", "unverified", "healthy"])).toEqual({ state: "healthy", asked: 3 });
  expect(await wait(["unhealthy"])).toEqual({ state: "unhealthy", asked: 4 });
});

test("an API server may be down while a fleet is waited for, but neither at first nor at the end", async () => {
  expect(await wait(["no-pod", "api-down", "healthy"])).toEqual({ state: "healthy", asked: 3 });
  await expect(wait(["api-down"])).rejects.toThrow("the API server is down");
  await expect(wait(["no-pod", "api-down"])).rejects.toThrow("the API server is down");
});
