import type { DaemonInput } from "../../src/daemon/daemon-input.ts";

type Origin = DaemonInput["objects"];

/** Where a daemon's objects come from in tests, with Events that go nowhere. */
export function idleOrigin(
  makeSource: Origin["makeSource"],
  unserved: Awaited<ReturnType<Origin["unservedServices"]>> = { ignored: [], loadBalancers: [] },
): Origin {
  return {
    makeSource,
    observeRequests: () => {},
    apiServers: () => [],
    eventSink: { send: async () => {} },
    unservedServices: async () => unserved,
  };
}
