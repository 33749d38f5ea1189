import { defineConfig } from "vitest/config";

/** Tests that take many minutes: `npm run soak`. They need what the project `kernel` of vitest.config.ts needs. */
export default defineConfig({
  test: {
    name: "soak",
    include: ["test/soak/**/*.test.ts"],
    globalSetup: "test/support/private-namespace.ts",
    fileParallelism: false,
    testTimeout: 3_600_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000 } },
  },
});
