import { describe, expect, test } from "vitest";
import { Availability } from "../../../../src/kube/reflector/availability.ts";
import { ManualClock } from "../../../support/manual-clock.ts";

/** Numbers in [0, 1) that look random, and are the same in each run. */
function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** A clock that moves on between two readings, as a real one does. */
class MovingClock extends ManualClock {
  #readings = 0;

  override monotonic(): number {
    this.#readings += 1;
    return super.monotonic() + this.#readings * 1e-6;
  }
}

/**
 * When attempts are made while no server answers, by four reflectors, in milliseconds since the outage
 * began.
 */
function attempts(outage: number, random: () => number, nodes = 0): number[] {
  const clock = new MovingClock();
  const availability = new Availability(clock, random, () => nodes);
  const times: number[] = [];
  const attempt = () => {
    times.push(clock.monotonic());
    availability.onTurn(attempt);
  };
  for (let n = 0; n < 4; n += 1) availability.onTurn(attempt);
  clock.advance(outage);
  return times;
}

describe("an outage", () => {
  test("of a minute costs a node of a large cluster at most 30 attempts", () => {
    for (let seed = 1; seed <= 200; seed += 1)
      expect(attempts(60_000, numbers(seed)).length).toBeLessThanOrEqual(30);
  });

  test.each([
    [20_000, 5_000, 2_000],
    [60_000, 5_000, 6_000],
    [600_000, 5_000, 15_000],
    [36_000_000, 50_000, 15_000],
    [36_000_000, 0, 15_000],
    [180_000, 3, 1_500],
    [36_000_000, 500, 1_500],
    [36_000_000, 1_000, 3_000],
  ])(
    "of %i ms, in a cluster of %i nodes, ends within %i ms of the server's return",
    (outage, nodes, pause) => {
      const times = attempts(outage + 20_000, () => 0.999_999, nodes);
      const next = times.find((time) => time >= outage) ?? Number.POSITIVE_INFINITY;
      expect(next - outage).toBeLessThanOrEqual(pause + 200);
    },
  );

  test("is probed by another resource each time", () => {
    const clock = new ManualClock();
    const availability = new Availability(
      clock,
      () => 0.5,
      () => 0,
    );
    const turns: string[] = [];
    for (const resource of ["services", "nodes"]) {
      const attempt = () => {
        turns.push(resource);
        availability.onTurn(attempt);
      };
      availability.onTurn(attempt);
    }
    clock.advance(6_000);
    expect(turns).toEqual(["services", "nodes", "services", "nodes"]);
  });

  test("begins at another time on each node, within a second and a half", () => {
    const firsts = Array.from({ length: 100 }, (_, seed) => attempts(1_500, numbers(seed * 7919))[0] ?? -1);
    expect(Math.min(...firsts)).toBeLessThan(150);
    expect(Math.max(...firsts)).toBeGreaterThan(1_350);
  });

  test("ends for all resources with the first answer", () => {
    const clock = new ManualClock();
    const availability = new Availability(
      clock,
      () => 0.5,
      () => 0,
    );
    let went = 0;
    for (let n = 0; n < 3; n += 1) availability.onTurn(() => (went += 1));
    availability.answered();
    expect([went, clock.timers]).toEqual([3, 0]);
  });

  test("leaves no timer when all that waited have stopped", () => {
    const clock = new ManualClock();
    const availability = new Availability(
      clock,
      () => 0.5,
      () => 0,
    );
    const cancels = [1, 2].map(() => availability.onTurn(() => {}));
    for (const cancel of cancels) cancel();
    expect(clock.timers).toBe(0);
  });
});

describe("lists whose version has expired", () => {
  const endOf = (outage: number, nodes = 5_000) => {
    const clock = new ManualClock();
    const availability = new Availability(
      clock,
      () => 0.999,
      () => nodes,
    );
    availability.onTurn(() => {});
    clock.advance(outage);
    availability.answered();
    return { clock, availability };
  };

  test.each([
    [3, 15],
    [1_000, 5_000],
    [5_000, 25_000],
    [50_000, 30_000],
    [0, 25_000],
  ])("are spread over 5 ms for each node, 30 s at most (%i nodes)", (nodes, spread) => {
    expect(endOf(180_000, nodes).availability.untilList()).toBeCloseTo(0.999 * spread, 0);
  });

  test("while the server answered are due within 3 s, but not before others that are due, nor after an outage", () => {
    const { clock, availability } = endOf(1_000);
    const first = availability.untilList(true);
    expect(first).toBeCloseTo(0.999 * 25_000, 0);
    clock.advance(4_000);
    expect(availability.untilList(true)).toBe(first - 4_000);
    clock.advance(first);
    expect(availability.untilList(true)).toBeCloseTo(0.999 * 3_000, 0);
  });

  test("are spread anew after the next outage, however soon", () => {
    const { clock, availability } = endOf(1_000);
    clock.advance(availability.untilList());
    availability.onTurn(() => {});
    clock.advance(1_000);
    availability.answered();
    expect(availability.untilList()).toBeCloseTo(0.999 * 25_000, 0);
  });

  test("are due at the same time for all resources of a node", () => {
    const { clock, availability } = endOf(1_000);
    const first = availability.untilList();
    clock.advance(4_000);
    expect(availability.untilList()).toBe(first - 4_000);
    clock.advance(first);
    expect(availability.untilList(), "of one that is a little late").toBe(0);
    clock.advance(25_000);
    expect(availability.untilList(), "of the next time").toBe(first);
  });
});
