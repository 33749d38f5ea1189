import { defineConfig } from "vitest/config";

/**
 * The tests that `npm run kernels` runs on each kernel, in an emulated machine that is 10 to 20 times slower:
 * recorded packets, affinity, schedulers, ranges of ports, recorded refusals, drift, changes by other
 * programs, restart, quarantine, life, timeouts and observation of connections, netlink messages and
 * readings, passive health checks, stale chains, the scratch register, resets, pings and the fast path.
 */
export default defineConfig({
  test: {
    name: "kernels",
    include: [
      "test/kernel/towns.test.ts",
      "test/kernel/affinity.test.ts",
      "test/kernel/daemon-source-ranges.test.ts",
      "test/kernel/daemon-drift.test.ts",
      "test/kernel/daemon-restart.test.ts",
      "test/kernel/daemon-quarantine.test.ts",
      "test/kernel/connection-timeouts.test.ts",
      "test/kernel/daemon-timeouts.test.ts",
      "test/kernel/packet-priority.test.ts",
      "test/kernel/port-ranges.test.ts",
      "test/kernel/refusals.test.ts",
      "test/kernel/schedulers.test.ts",
      "test/kernel/netlink.test.ts",
      "test/kernel/netlink-events.test.ts",
      "test/kernel/netlink-requests.test.ts",
      "test/kernel/daemon-netlink.test.ts",
      "test/kernel/daemon-foreign.test.ts",
      "test/kernel/client-limits.test.ts",
      "test/kernel/connection-life.test.ts",
      "test/kernel/flow-listener.test.ts",
      "test/kernel/observe.test.ts",
      "test/kernel/daemon-observe.test.ts",
      "test/kernel/passive-health.test.ts",
      "test/kernel/daemon-passive-health.test.ts",
      "test/kernel/daemon-ejections.test.ts",
      "test/kernel/port-range-addresses.test.ts",
      "test/kernel/stale-chains.test.ts",
      "test/kernel/bridged-pods.test.ts",
      "test/kernel/vanished-set.test.ts",
      "test/kernel/answer-ping.test.ts",
      "test/kernel/fast-path.test.ts",
      "test/kernel/fast-path-towns.test.ts",
    ],
    globalSetup: "test/support/private-namespace.ts",
    fileParallelism: false,
    reporters: ["verbose", ["json", { outputFile: ".cache/test-results.json" }]],
    // 15 minutes, less than the hour that kernels.sh gives a kernel: a test that hangs then fails alone, and
    // the other tests still run.
    testTimeout: 900_000,
    hookTimeout: 900_000,
    // The same as NFT_PROXY_TEST_PATIENCE_MS in scripts/kernels-guest.sh.
    expect: { poll: { timeout: 600_000 } },
  },
});
