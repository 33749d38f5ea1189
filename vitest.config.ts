import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { FileOrder } from "./test/support/file-order.ts";
import { namespacePool } from "./test/support/namespace-pool.ts";

/**
 * Defines three projects. `unit` needs Node and, for the manifests, Debian's kubectl, which it fetches.
 * `kernel` needs the network namespace that scripts/in-namespace.sh makes, a built bundle and an nft that can
 * load our JSON. `browser` needs Chromium, and is skipped without it.
 */
export default defineConfig({
  define: { __VERSION__: JSON.stringify("0.0.0-test") },
  test: {
    // By default Vitest keeps one processor for itself, which is half of two.
    maxWorkers: "100%",
    sequence: { sequencer: FileOrder },
    reporters: ["default", ["json", { outputFile: ".cache/test-results.json" }]],
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          include: ["test/unit/**/*.test.ts", "test/features/**/*.test.ts", "test/property/**/*.test.ts"],
          // Starting a process for each file would take as long as the tests themselves.
          isolate: false,
          // Vitest's defaults, 5 seconds and one second for polls, are too short for a slow machine. On a busy
          // one, the property tests of change-steps.test.ts took more than a minute.
          testTimeout: 300_000,
          expect: { poll: { timeout: 30_000 } },
        },
      },
      {
        extends: true,
        test: {
          name: "kernel",
          include: ["test/kernel/**/*.test.ts", "test/cli/**/*.test.ts"],
          globalSetup: "test/support/private-namespace.ts",
          pool: namespacePool,
          // The test files of a worker share its process, whose imports take longer than many a test.
          isolate: false,
          setupFiles: "test/support/empty-ruleset.ts",
          // Runs after the unit tests, which use all processors and would slow the daemons down.
          sequence: { groupOrder: 1 },
          // Most of these tests wait: for packets that are dropped, and for daemons.
          maxWorkers: Math.ceil(1.5 * availableParallelism()),
          // Vitest's default of one second is too short for a slow machine.
          expect: { poll: { timeout: 60_000, interval: 100 } },
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
      {
        test: {
          name: "browser",
          include: ["test/browser/**/*.test.ts"],
          globalSetup: "test/support/chromium.ts",
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
    ],
    coverage: { provider: "v8", include: ["src/**"] },
  },
});
