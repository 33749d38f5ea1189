import { expect, test } from "vitest";
import { unfollowedResources } from "../../../src/kube/source.ts";

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
