import { expect, test } from "vitest";
import { resolveOptions } from "../../../../src/config/resolve.ts";
import { loadDesired, loadDesiredIfAvailable } from "../../../../src/inspect/load/desired.ts";
import type { LoadRequest } from "../../../../src/inspect/load/load-request.ts";
import { INITIAL_STATE, type SourceState } from "../../../../src/kube/source.ts";
import type { RunningDaemon } from "../../../../src/socket/daemon-client.ts";
import { testNodeContext } from "../../../support/build.ts";

const LISTED: SourceState = { ...INITIAL_STATE, synced: true };
const AWAITED: SourceState = { ...INITIAL_STATE, failure: "connect ECONNREFUSED 192.0.2.9:6443" };

/** A request beside a daemon that has not listed Services since its start. Nothing answers at its socket. */
function request(): LoadRequest {
  const { options } = resolveOptions();
  const sources = { services: AWAITED, endpointslices: LISTED, nodes: LISTED, servicecidrs: LISTED };
  const sync = { syncs: 0, failures: 0 };
  const state = { nodeName: "node-1", sources, sync, options, now: 0, nodeContext: testNodeContext() };
  return {
    options,
    daemon: { socket: "/nowhere/socket", state: state as unknown as RunningDaemon["state"], isHere: true },
    nodeName: "node-1",
    paths: [],
    stdin: (async function* () {})(),
    env: {},
    userAgent: "test",
  };
}

const REASON =
  "the daemon on node-1 has not listed services since its start: connect ECONNREFUSED 192.0.2.9:6443";

test("loadDesired refuses a daemon without all objects, which would seem to be an empty cluster", async () => {
  await expect(loadDesired(request())).rejects.toMatchObject({ code: "API_UNAVAILABLE", message: REASON });
});

test("loadDesiredIfAvailable has no objects beside such a daemon, and says so", async () => {
  const { objectsKnown, cache, notices } = await loadDesiredIfAvailable(request(), "without names");
  expect({ objectsKnown, services: cache.serviceCount }).toEqual({ objectsKnown: false, services: 0 });
  expect(notices).toEqual([`warning: objects unavailable, without names: ${REASON}`]);
});
