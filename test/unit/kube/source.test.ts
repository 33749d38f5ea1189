import { expect, test } from "vitest";
import { unfollowedResources } from "../../../src/kube/source.ts";
import { SourceStatus } from "../../../src/kube/source-status.ts";
import { ManualClock } from "../../support/manual-clock.ts";

const NOW = 1_000_000;

test("resources are unfollowed after a minute of failures, and neither while quiet nor after a short break", () => {
  const states = {
    services: { failure: "connect ECONNREFUSED", lastEventAt: NOW - 60_000 },
    endpointslices: { failure: "connect ECONNREFUSED", lastEventAt: NOW - 59_999 },
    nodes: { failure: "", lastEventAt: 0 },
    servicecidrs: { failure: "HTTP status 401", lastEventAt: 0 },
  };
  expect(unfollowedResources(states, NOW)).toEqual(["services", "servicecidrs"]);
});

test("a resource is followed since it was first reached after a failure, however often its watch is renewed", () => {
  const { clock, status, since } = source();
  expect(since()).toBe(0);
  status.followed();
  const first = clock.now();
  clock.advance(1000);
  status.followed();
  expect(since()).toBe(first);
  status.failed("connection", "connect ECONNREFUSED");
  expect(since()).toBe(0);
  clock.advance(1000);
  status.followed();
  expect(since()).toBe(clock.now());
  status.absentResource();
  expect(since()).toBe(0);
});

test("a resource is not unfollowed because the wall clock was set", () => {
  const { clock, status } = source();
  status.listed();
  status.failed("connection", "connect ECONNREFUSED");
  const unfollowed = () => {
    const state = status.snapshot(0);
    const states = { services: state, endpointslices: state, nodes: state, servicecidrs: state };
    return unfollowedResources(states, clock.now());
  };
  clock.set(clock.now() + 3_600_000);
  expect(unfollowed()).toEqual([]);
  clock.advance(60_000);
  clock.set(clock.now() - 7_200_000);
  expect(unfollowed()).toHaveLength(4);
});

function source() {
  const clock = new ManualClock(NOW);
  const status = new SourceStatus(clock);
  return { clock, status, since: () => status.snapshot(0).followedSince };
}
