import { expect, test } from "vitest";
import { unfollowedResources } from "../../../src/kube/source.ts";
import { SourceStatus } from "../../../src/kube/source-status.ts";

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
  const status = new SourceStatus();
  const since = () => status.snapshot(0).followedSince;
  expect(since()).toBe(0);
  status.followed(1000);
  status.followed(2000);
  expect(since()).toBe(1000);
  status.failed("connect ECONNREFUSED");
  expect(since()).toBe(0);
  status.followed(3000);
  expect(since()).toBe(3000);
  status.absentResource();
  expect(since()).toBe(0);
});
