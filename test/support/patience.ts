/** Timeout of operations that a slow machine may delay; a test that waits longer has failed. */
export const PATIENCE = { timeout: Number(process.env.NFT_PROXY_TEST_PATIENCE_MS ?? 60_000), interval: 100 };
