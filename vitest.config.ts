import { defineConfig } from "vitest/config";
import { namespacePool } from "./test/support/namespace-pool.ts";

/**
 * Three projects: `unit` needs Node and, for the manifests, Debian's kubectl, which it fetches; `kernel` needs the network namespace that scripts/in-namespace.sh
 * makes, a built bundle and an nft that can load our JSON; `browser` needs a Chromium, and is left out without one.
 */
export default defineConfig({
  define: { __VERSION__: JSON.stringify("0.0.0-test") },
  test: {
    // Vitest's default leaves one processor to itself; of two that is half.
    maxWorkers: "100%",
    reporters: ["default", ["json", { outputFile: ".cache/test-results.json" }]],
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          include: ["test/unit/**/*.test.ts", "test/property/**/*.test.ts"],
          // A process for each file would take as long as the tests.
          isolate: false,
          // Vitest's 5 seconds, and one second for polls, would make a slow machine fail.
          testTimeout: 60_000,
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
          // Unit tests never wait: beside them, daemons would be slow.
          sequence: { groupOrder: 1 },
          // Vitest's one second would make a slow machine fail.
          expect: { poll: { timeout: 60_000 } },
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
