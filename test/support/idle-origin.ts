import type { DaemonInput } from "../../src/daemon/daemon-input.ts";

type Origin = DaemonInput["objects"];

/** The source of a daemon's objects in tests. Its Events are discarded. */
export function idleOrigin(
  makeSource: Origin["makeSource"],
  unserved: Awaited<ReturnType<Origin["unservedServices"]>> = { ignored: [], loadBalancers: [] },
): Origin {
  return {
    makeSource,
    apiServers: () => [],
    remedy: () => "see the log of the API server",
    sendEvent: async () => {},
    unservedServices: async () => unserved,
  };
}
